import type { DumpOptions, RecordedBalancer, Recorder, Recording } from '../call/recording.js';
import { checkBoolean, checkKeys } from '../runtime/check.js';
import { inBackground } from '../runtime/clock.js';
import type { Filled } from '../runtime/complete.js';
import { functionOption, numberOption, type OptionTable, optionTable } from '../runtime/options.js';
import { writeDump } from './dump.js';
import { Parts } from './parts.js';
import { Track } from './track.js';

/** Options of `flightRecorder`: how much it keeps, and what happens when a balancer panics. */
export interface FlightRecorderOptions {
  /** How far back a dump goes at least, in seconds, if `bytes` allows it. From 1 to 3600. @defaultValue 60 */
  readonly seconds?: number | undefined;
  /**
   * The most memory, in bytes, over all balancers of the recorder: 1 MiB to 1 GiB. The oldest calls are dropped first. @defaultValue
   * 16777216 (16 MiB)
   */
  readonly bytes?: number | undefined;
  /**
   * Called with a dump when a balancer starts to panic, which means that most endpoints are suspect and all are used. Called at most once a
   * minute, at the end of the turn. @defaultValue none
   */
  readonly onPanic?: ((dump: Uint8Array<ArrayBuffer>) => void) | undefined;
}

/** Keeps the latest calls of balancers: pass a recorder as their option `recorder`. */
export interface FlightRecorder extends Recorder {
  /**
   * Returns everything that the recorder holds, as a dump; recording continues. Takes some ms per MB. Throws EVENKEEL_OPTION for invalid
   * options.
   */
  dump(options?: DumpOptions): Uint8Array<ArrayBuffer>;
}

export const flightRecorderTable: OptionTable<Filled<FlightRecorderOptions, 'onPanic'>> = optionTable(
  'flightRecorder',
  {
    seconds: numberOption(60, { min: 1, max: 3_600 }),
    bytes: numberOption(16 * 1024 * 1024, { min: 2 ** 20, max: 2 ** 30, integer: true }),
    onPanic: functionOption<NonNullable<FlightRecorderOptions['onPanic']>>(),
  },
);

/** The shortest time between two dumps of balancers that panic, in ms. */
const PANIC_PAUSE_MS = 60_000;

/**
 * A recorder: a ring in memory with everything picks are based on: endpoint sets, verdicts, picks, outcomes, times and the random state.
 * From it `evenkeel explain` says why a call went to its endpoint, and `evenkeel replay` makes the picks again. One recorder may serve
 * several balancers of a thread. Throws EVENKEEL_OPTION for invalid options.
 *
 * @example const recorder = flightRecorder(); const fetch = createFetch('http://orders.shop:8080', { recorder }); process.on('SIGUSR2', ()
 * => writeFileSync('/tmp/evenkeel.bin', recorder.dump()));
 */
export function flightRecorder(options: FlightRecorderOptions = {}): FlightRecorder {
  const { seconds, bytes, onPanic } = flightRecorderTable.resolve(options);
  return new RingRecorder(new Parts(bytes, seconds * 1_000), onPanic);
}

class RingRecorder implements FlightRecorder {
  readonly #parts: Parts;
  readonly #onPanic: ((dump: Uint8Array<ArrayBuffer>) => void) | undefined;
  readonly #tracks = new Set<Track>();
  #quietUntilMs = Number.NEGATIVE_INFINITY;

  constructor(parts: Parts, onPanic: ((dump: Uint8Array<ArrayBuffer>) => void) | undefined) {
    this.#parts = parts;
    this.#onPanic = onPanic;
  }

  begin(balancer: RecordedBalancer): Recording {
    for (const track of this.#tracks) if (track.isClosed) this.#tracks.delete(track);
    const track = new Track(balancer, this.#parts, () => this.#panicked(balancer));
    this.#tracks.add(track);
    return track;
  }

  dump(options: DumpOptions = {}): Uint8Array<ArrayBuffer> {
    checkKeys('dump', options, ['pseudonyms']);
    const pseudonyms = checkBoolean('pseudonyms', options.pseudonyms, false);
    let leftOut = 0;
    for (const { isKept } of this.#tracks) if (!isKept) leftOut++;
    return writeDump(this.#parts.all, pseudonyms, leftOut);
  }

  #panicked({ clock }: RecordedBalancer): void {
    const nowMs = clock.now();
    const onPanic = this.#onPanic;
    if (onPanic === undefined || nowMs < this.#quietUntilMs) return;
    this.#quietUntilMs = nowMs + PANIC_PAUSE_MS;
    // The stages are running now, so the dump waits for the end of the turn.
    clock.defer(() => {
      inBackground(() => {
        try {
          const result: unknown = onPanic(this.dump());
          // The type of `onPanic` also allows an async function, whose rejection would end the process.
          if (result instanceof Promise) result.catch(() => {});
        } catch {
          // An error that `onPanic` throws is the application's own problem, as with observers.
        }
      });
    });
  }
}
