import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** One request as it reached a pod. */
export interface Arrival {
  readonly pod: string;
  /** By the machine's clock. */
  readonly atMs: number;
}

/** The servers' side of the count: what reached which pod when, also of pods that are gone. */
export class Journal implements Disposable {
  readonly file: string;
  readonly #folder: string;

  constructor() {
    this.#folder = mkdtempSync(join(tmpdir(), 'evenkeel-journal-'));
    this.file = join(this.#folder, 'arrivals');
  }

  /** All arrivals by request id, in order. */
  read(): Map<string, Arrival[]> {
    const arrivals = new Map<string, Arrival[]>();
    for (const line of readFileSync(this.file, 'utf8').split('\n')) {
      const [id, pod, microseconds] = line.split(' ');
      if (id === undefined || pod === undefined || microseconds === undefined) continue;
      const arrival = { pod, atMs: Number(microseconds) / 1_000 };
      const before = arrivals.get(id);
      if (before === undefined) arrivals.set(id, [arrival]);
      else before.push(arrival);
    }
    return arrivals;
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
