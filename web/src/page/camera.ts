/** The camera: it runs only while its picture is on the page, and a snapshot stops it. */

import { DippError } from "../errors";
import { element } from "./dom";

let camera: MediaStream | undefined;

const button = element<HTMLButtonElement>("camera");

export async function startCamera(): Promise<void> {
  if (button.disabled) return; // a second stream would be one that nobody stops
  button.disabled = true;
  try {
    camera = await navigator.mediaDevices.getUserMedia({ video: true });
  } catch {
    button.disabled = false;
    throw new DippError("the camera", "is missing, or this page is not allowed to use it", "allow it, or choose a file");
  }
  const video = element<HTMLVideoElement>("video");
  video.srcObject = camera;
  await video.play();
  element("shutter").hidden = false;
}

export function stopCamera(): void {
  camera?.getTracks().forEach((track) => track.stop());
  camera = undefined;
  element("shutter").hidden = true;
  button.disabled = false;
}

/** What the camera sees now, as a PNG. */
export function snapshot(): Promise<Blob> {
  const video = element<HTMLVideoElement>("video");
  const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
  canvas.getContext("2d")!.drawImage(video, 0, 0);
  stopCamera();
  return canvas.convertToBlob();
}
