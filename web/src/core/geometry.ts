/** The size of a picture. A coordinate of it is pixel·C + channel, with pixels counted row by row. */

export interface Size {
  readonly height: number;
  readonly width: number;
}

export interface Geometry extends Size {
  readonly channels: number;
}

export function pixelsOf({ height, width }: Size): number {
  return height * width;
}
