/** The camera, which runs only while the page shows its picture. A snapshot stops it. */

import { DippError } from "../errors";
import { element } from "./dom";

let camera: MediaStream | undefined;

const button = element<HTMLButtonElement>("camera");

export async function startCamera(): Promise<void> {
  if (button.disabled) return; // nobody would stop a second stream
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

/** Stop the camera, and return its last picture as a PNG. */
export function snapshot(): Promise<Blob> {
  const video = element<HTMLVideoElement>("video");
  const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
  canvas.getContext("2d")!.drawImage(video, 0, 0);
  stopCamera();
  return canvas.convertToBlob();
}
