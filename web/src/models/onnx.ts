/**
 * The shipped network in ONNX Runtime Web, on WebGPU if there is an adapter and otherwise in WebAssembly. Its inputs are
 * the planes that its config names, stacked (1, K, H, W), and the SNR (1), for any height and width.
 */

import type * as Runtime from "onnxruntime-web";
import { DippError } from "../errors";
import type { Size } from "../core/geometry";
import type { Books } from "./books";
import type { Denoiser } from "./denoiser";
import { type Evidence, LARGEST_SNR, levelOf, type Plane, restored, stacked } from "./evidence";

export type Engine = "webgpu" | "wasm";

/** Files of the runtime, beside the page. */
const FILES: Record<Engine, { script: string; support: string }> = {
  webgpu: { script: "ort.webgpu.min.mjs", support: "ort-wasm-simd-threaded.asyncify" },
  wasm: { script: "ort.wasm.min.mjs", support: "ort-wasm-simd-threaded" },
};
/** More threads than this gain little on pictures of the size that browsers handle. */
const MOST_THREADS = 8;

/** The facts about the network that the page's table has. */
export interface NetworkFacts {
  readonly identity: string;
  readonly channels: number;
  /** The planes that the network takes, in the order of its input. */
  readonly planes: readonly Plane[];
}

export class OnnxDenoiser implements Denoiser {
  private busy: Promise<unknown> = Promise.resolve();

  private constructor(
    private readonly runtime: typeof Runtime,
    private readonly session: Runtime.InferenceSession,
    readonly engine: Engine,
    readonly threads: number,
    private readonly facts: NetworkFacts,
    readonly books: Books | undefined,
  ) {}

  /** Load runtime and network; `place` is the folder of the page, `network` the file's bytes. */
  static async load(
    place: URL,
    network: Uint8Array,
    facts: NetworkFacts,
    books: Books | undefined,
    engine: Engine,
  ): Promise<OnnxDenoiser> {
    const { script, support } = FILES[engine];
    const runtime = (await import(new URL(`ort/${script}`, place).href)) as typeof Runtime;
    const threads = globalThis.crossOriginIsolated ? Math.min(MOST_THREADS, navigator.hardwareConcurrency || 1) : 1;
    runtime.env.wasm.numThreads = threads;
    runtime.env.wasm.wasmPaths = {
      mjs: new URL(`ort/${support}.mjs`, place).href,
      wasm: new URL(`ort/${support}.wasm`, place).href,
    };
    const session = await runtime.InferenceSession.create(network, { executionProviders: [engine], logSeverityLevel: 3 });
    return new OnnxDenoiser(runtime, session, engine, threads, facts, books);
  }

  get identity(): string {
    return this.facts.identity;
  }

  get planes(): readonly Plane[] {
    return this.facts.planes;
  }

  get channels(): number {
    return this.facts.channels;
  }

  /** Predict x̂0. Calls wait for each other, because the runtime takes only one at a time. */
  predict(evidence: Evidence, size: Size): Promise<Float32Array> {
    const prediction = this.busy.then(() => this.run(evidence, size));
    this.busy = prediction.catch(() => undefined);
    return prediction;
  }

  private async run(evidence: Evidence, { height, width }: Size): Promise<Float32Array> {
    const told = stacked(evidence, this.planes, this.channels);
    const y = new this.runtime.Tensor("float32", told, [1, told.length / (height * width), height, width]);
    const level = new this.runtime.Tensor("float32", Float32Array.of(Math.min(levelOf(evidence), LARGEST_SNR)), [1]);
    const { x0 } = await this.session.run({ y, snr: level });
    const prediction = await x0?.getData();
    if (!(prediction instanceof Float32Array) || prediction.length !== evidence.state.length) {
      throw new DippError("the network", "did not answer", "load the page again");
    }
    return restored(prediction.map((value) => Math.min(Math.max(value, -1), 1)), evidence);
  }
}

/** Return WebGPU if the browser has an adapter, and otherwise WebAssembly. */
export async function bestEngine(): Promise<Engine> {
  try {
    const adapter = await navigator.gpu?.requestAdapter();
    return adapter ? "webgpu" : "wasm";
  } catch {
    return "wasm";
  }
}
