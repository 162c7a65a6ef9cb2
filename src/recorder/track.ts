import { pickFlags, type RecordedBalancer, type Recording } from '../call/recording.js';
import type { EndpointSet } from '../endpoint/endpoint-set.js';
import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import type { ErrorCode } from '../errors.js';
import type { Observer } from '../observe/observer.js';
import type { Member } from '../pool/pool.js';
import type { RecordedSubchannel, SubchannelToRecord } from '../pool/subchannel-recording.js';
import { hash32 } from '../runtime/hash.js';
import { Sfc32 } from '../runtime/rng.js';
import { configurationOf } from './configuration.js';
import {
  type Configuration,
  causes,
  endFlags,
  kinds,
  NOBODY,
  outcomeKinds,
  refusals,
  type Start,
  states,
  UNIT,
} from './format.js';
import { LiveSubchannels, roomOf } from './live-subchannels.js';
import { noteObserver } from './note-observer.js';
import type { Part, Parts } from './parts.js';
import { encoded, halved, RecordWriter } from './record-writer.js';
import { RecordedSet } from './recorded-set.js';
import { ReportFields } from './report-fields.js';

/** Room reserved at the end of a recording's part, in units: the most that one pick or one end of a call writes. */
const RESERVE = 512;
/** The longest time that a part of a recording covers, as a share of the time that is to be kept. */
const TIME_SHARE = 1 / 4;
/** How long until the next attempt to get memory for another part, if there is none, in ms. */
const RETRY_MS = 5_000;
/** The largest number of a call; after it, numbers start at 1 again. */
const MAX_CALL = 2 ** 30 - 1;

/**
 * Records one balancer, in parts. A part starts with the complete state and a newly built picker, so that it can be read without earlier
 * parts, whose memory is reused.
 */
export class Track implements Recording {
  readonly rng: Sfc32;
  readonly observer: Observer;
  readonly name: string;
  readonly configuration: Configuration;
  isClosed = false;
  readonly #balancer: RecordedBalancer;
  readonly #parts: Parts;
  readonly #fields: ReportFields;
  readonly #writer: RecordWriter;
  readonly #live = new LiveSubchannels();
  readonly #set = new RecordedSet();
  #part: Part | undefined;
  /** The position in the current part from which on `prepare` starts another part. */
  #softEnd = Number.POSITIVE_INFINITY;
  /** When another part starts at the latest, a time of the balancer's clock in ms. */
  #turnMs = Number.NEGATIVE_INFINITY;
  #calls = 0;
  /** Whether a pick or an end of a call is being written, so that no part can start. */
  #isBusy = false;

  constructor(balancer: RecordedBalancer, parts: Parts, panicked: () => void) {
    this.#balancer = balancer;
    this.#parts = parts;
    this.name = balancer.name;
    this.rng = new Sfc32(balancer.rng);
    this.configuration = configurationOf(balancer);
    this.#fields = new ReportFields(this.configuration.load);
    this.#writer = new RecordWriter((units) => this.#makeRoom(units));
    this.observer = noteObserver(() => this.nowMs, this.#live, this.#writer, panicked);
  }

  get nowMs(): number {
    return this.#balancer.clock.now();
  }

  /** Whether any part of the recording is still kept. */
  get isKept(): boolean {
    return this.isClosed || this.#part !== undefined || this.#turnMs === Number.NEGATIVE_INFINITY;
  }

  /** Updates how much of the current part is used. */
  touch(): void {
    const part = this.#part;
    if (part === undefined) return;
    part.units = this.#writer.at;
    part.toMs = this.nowMs;
  }

  prepare(nowMs: number): void {
    if (this.#writer.at >= this.#softEnd || nowMs >= this.#turnMs) this.#turn(nowMs);
    this.#isBusy = true;
  }

  settled(): void {
    this.#isBusy = false;
  }

  picked(
    subchannel: RecordedSubchannel | undefined,
    nowMs: number,
    flags: number,
    key: string | undefined,
    avoid: ReadonlySet<RecordedSubchannel> | undefined,
  ): number {
    this.#isBusy = false;
    const writer = this.#writer;
    let all = flags;
    if (avoid !== undefined && avoid.size > 0) {
      all |= pickFlags.avoiding;
      // A subchannel that is gone has no number, and is not picked either.
      const numbered = [...avoid].filter(({ recordedAs }) => recordedAs >= 0);
      if (writer.begin(kinds.avoid, 0, numbered.length, 0, halved(numbered.length)))
        writer.ids(numbered, numbered.length);
    }
    if (key !== undefined && typeof key === 'string' && key !== '') all |= pickFlags.keyed;
    if (!writer.fits(3)) return 0;
    const began = (flags & pickFlags.began) !== 0;
    if (began) this.#calls = (this.#calls % MAX_CALL) + 1;
    const call = began ? this.#calls : 0;
    writer.begin(kinds.pick, all, subchannel === undefined ? NOBODY : subchannel.recordedAs, call);
    writer.number(nowMs);
    if ((all & pickFlags.keyed) !== 0) writer.word(hash32(key as string));
    return call;
  }

  ended(
    subchannel: RecordedSubchannel,
    call: number,
    nowMs: number,
    outcome: Outcome,
    measuredFromMs: number,
    isMeasured: boolean,
  ): void {
    let flags = outcomeKinds.indexOf(outcome.kind) | (causes.indexOf(outcome.cause) << 2);
    if (isMeasured) flags |= endFlags.measured;
    const { report } = outcome;
    if (report !== undefined && this.#fields.counts === 'at the end' && this.#report(kinds.held, 0, report, 0)) {
      flags |= endFlags.held;
    }
    if (!this.#writer.begin(kinds.end, flags, subchannel.recordedAs, call, 2)) return;
    this.#writer.number(nowMs);
    this.#writer.number(measuredFromMs);
  }

  reported(subchannel: RecordedSubchannel, report: LoadReport, nowMs: number): void {
    if (this.#fields.counts === 'at once') this.#report(kinds.report, subchannel.recordedAs, report, nowMs);
  }

  waited(call: number, sinceMs: number): void {
    if (call !== 0 && this.#writer.begin(kinds.waited, 0, 0, call, 1)) this.#writer.number(sinceMs);
  }

  refused(sinceMs: number, nowMs: number, code: ErrorCode): void {
    if (!this.#writer.begin(kinds.refused, refusals.indexOf(code) & 0xff, 0, 0, 2)) return;
    this.#writer.number(sinceMs);
    this.#writer.number(nowMs);
  }

  created(subchannel: SubchannelToRecord): void {
    const added = this.#live.add(subchannel);
    if (added === undefined) return;
    this.#writer.change({ k: 'created', ...added });
    this.changed(subchannel);
  }

  changed(subchannel: RecordedSubchannel): void {
    const id = subchannel.recordedAs;
    if (id >= 0) this.#writer.begin(kinds.state, states.indexOf(subchannel.state), id, roomOf(subchannel));
  }

  closed(subchannel: RecordedSubchannel): void {
    if (this.#live.remove(subchannel)) this.#writer.change({ k: 'closed', id: subchannel.recordedAs });
  }

  staged(stage: number, before: EndpointSet, after: EndpointSet): void {
    this.#set.staged(stage, before, after);
  }

  published(known: EndpointSet, members: readonly Member<unknown>[]): void {
    const change = this.#set.publish(known, members, this.nowMs);
    if (change !== undefined) this.#writer.json(change);
  }

  rebuilding(first: readonly RecordedSubchannel[]): void {
    this.#live.release();
    if (!this.#writer.begin(kinds.rebuild, 0, first.length, 0, 2 + halved(first.length))) return;
    this.#writer.fourWords(this.rng.state);
    this.#writer.ids(first, first.length);
  }

  close(): void {
    if (this.isClosed) return;
    this.#writer.json({ k: 'note', at: this.nowMs, what: 'closed' });
    this.isClosed = true;
    this.touch();
    if (this.#part !== undefined) this.#parts.done(this.#part);
    this.#part = undefined;
    this.#writer.open(undefined);
    this.#softEnd = Number.POSITIVE_INFINITY;
    this.#live.clear();
  }

  #report(kind: number, id: number, report: LoadReport, nowMs: number): boolean {
    const { values } = this.#fields;
    const mask = this.#fields.read(report);
    return mask !== 0 && this.#writer.fields(kind, id, mask, values, nowMs);
  }

  /** Makes room for a record that does not fit into the current part. Returns whether the record fits now. */
  #makeRoom(units: number): boolean {
    if (this.isClosed) return false;
    const writer = this.#writer;
    if (!this.#isBusy) {
      const { nowMs } = this;
      if (this.#part === undefined && nowMs < this.#turnMs) return false;
      return this.#turn(nowMs) && writer.at + units <= writer.size;
    }
    // The part is incomplete from here on, so the next pick or end of a call starts another.
    writer.size = 0;
    this.#turnMs = Number.NEGATIVE_INFINITY;
    return false;
  }

  /** Ends the current part and starts another one with the complete state. */
  #turn(nowMs: number): boolean {
    if (this.isClosed) return false;
    const loads = this.#live.loads();
    const start = encoded(this.#start(nowMs, loads));
    const before = this.#part;
    const size = before === undefined ? 0 : before.buffer.byteLength / UNIT;
    const wanted = this.#writer.at >= this.#softEnd ? 2 * size : size;
    this.touch();
    if (before !== undefined) this.#parts.done(before);
    const least = Math.ceil(start.length / UNIT) + loads.numbers.length + 3;
    const part = this.#parts.take(this, 4 * (least + RESERVE), wanted, nowMs);
    this.#part = part;
    this.#writer.open(part?.buffer);
    if (part === undefined) {
      this.#softEnd = Number.POSITIVE_INFINITY;
      this.#turnMs = nowMs + RETRY_MS;
      return false;
    }
    this.#softEnd = this.#writer.size - RESERVE;
    this.#turnMs = nowMs + this.#parts.keepMs * TIME_SHARE;
    this.#writer.text(start);
    this.#writer.numbers(loads.numbers);
    this.#balancer.refresh();
    return true;
  }

  #start(nowMs: number, { memory, fields }: { readonly memory: number; readonly fields: number }): Start {
    const { members, out, version } = this.#set;
    const set = this.#balancer.pickSet();
    const idOf = ({ recordedAs }: RecordedSubchannel): number => recordedAs;
    return {
      k: 'start',
      at: nowMs,
      calls: this.#calls,
      version,
      members,
      out,
      ...(set !== undefined && {
        set: {
          ready: set.targets.map(idOf),
          weights: set.weights,
          all: set.all.map(idOf),
          allWeights: set.allWeights,
        },
      }),
      chance: [...this.rng.state],
      memory,
      fields,
      ...this.#live.start(),
    };
  }
}
