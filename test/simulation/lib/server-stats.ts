import type { LoadReport } from '../../../src/endpoint/outcome.js';
import type { Answer, SimulatedServer } from './server.js';

/** How often a server samples itself, in ms, as gRPC's and ours do. */
const SAMPLE_MS = 1_000;
/** How many of its last answers a server remembers, and how many of them at most and at least make an estimate. */
const REMEMBERED = 128;
const ESTIMATED_BY = 9;
const FEWEST = 3;

/** What a server knows of itself, and tells those that ask. */
export class ServerStats {
  readonly #server: SimulatedServer;
  /** The last answers, in a ring: requests in flight when each came, and how long it took. */
  readonly #inFlight = new Float64Array(REMEMBERED);
  readonly #tookMs = new Float64Array(REMEMBERED);
  #answers = 0;
  #failed = 0;
  #sampledAtMs = 0;
  #sampled = { answers: 0, failed: 0, usedMs: 0 };
  #sample: LoadReport = {};

  constructor(server: SimulatedServer) {
    this.#server = server;
  }

  /** A request was answered. @param inFlight When it came, itself included. */
  answered(inFlight: number, tookMs: number, answer: Answer): void {
    const at = this.#answers++ % REMEMBERED;
    this.#inFlight[at] = inFlight;
    this.#tookMs[at] = tookMs;
    if (answer === 'error') this.#failed++;
  }

  /** Utilization and calls per second of the last whole second: what `weighted_round_robin` of gRPC goes by. */
  utilization(nowMs: number): LoadReport {
    const passedMs = nowMs - this.#sampledAtMs;
    if (passedMs >= SAMPLE_MS) {
      const { answers, failed, usedMs } = this.#sampled;
      const used = this.#server.usedMs;
      this.#sample = {
        cpuUtilization: (used - usedMs) / passedMs / this.#server.cores,
        rpsFractional: ((this.#answers - answers) * 1_000) / passedMs,
        eps: ((this.#failed - failed) * 1_000) / passedMs,
      };
      this.#sampledAtMs = nowMs;
      this.#sampled = { answers: this.#answers, failed: this.#failed, usedMs: used };
    }
    return this.#sample;
  }

  /** How long a request would take that came now: the median of the latest that met as many others, or nearly. 0 = unknown. */
  latencyMs(inFlight: number): number {
    const count = Math.min(this.#answers, REMEMBERED);
    if (count === 0) return 0;
    for (let width = 0; ; width = Math.max(1, 2 * width)) {
      const times: number[] = [];
      for (let age = 1; age <= count && times.length < ESTIMATED_BY; age++) {
        const at = (this.#answers - age) % REMEMBERED;
        if (Math.abs((this.#inFlight[at] as number) - inFlight) <= width) times.push(this.#tookMs[at] as number);
      }
      if (times.length >= Math.min(FEWEST, count)) return times.sort((a, b) => a - b)[times.length >> 1] as number;
    }
  }
}
