import { pickFlags, type RecordedBalancer, type Recording } from '../balancer/recording.js';
import type { Endpoint } from '../endpoint/endpoint.js';
import type { EndpointSet } from '../endpoint/endpoint-set.js';
import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import type { ErrorCode } from '../errors.js';
import { RuledLoad } from '../load/load-rule.js';
import type { Observer } from '../observe/observer.js';
import type { Member } from '../pool/pool.js';
import type { RecordedSubchannel, SubchannelToRecord } from '../pool/subchannel-recording.js';
import { hash32 } from '../runtime/hash.js';
import { configurationOf } from './configuration.js';
import {
  type Configuration,
  causes,
  endFlags,
  type JsonRecord,
  kinds,
  NOBODY,
  type Note,
  type Out,
  outcomeKinds,
  type RecordedEndpoint,
  refusals,
  states,
  UNIT,
} from './format.js';
import type { Part, Parts } from './parts.js';
import { RecordedRng } from './recorded-rng.js';
import { ReportFields } from './report-fields.js';

/** Room reserved at the end of a part, in units: the most that one pick or one end writes. */
const RESERVE = 512;
/** A part is at most this share of the time to keep. */
const TIME_SHARE = 1 / 4;
/** If there is no room for another part, how long until the next attempt, in ms. */
const RETRY_MS = 5_000;
/** Call numbers start again after this many. */
const MAX_CALL = 2 ** 30 - 1;
/** Longer texts are truncated. */
const MAX_TEXT = 300;

/** What happens to one subchannel, for display. */
interface Live {
  readonly subchannel: SubchannelToRecord;
  readonly endpoint: RecordedEndpoint;
  note: Note | undefined;
}

/**
 * Records one balancer, in parts. A part starts with the complete state and a newly built picker, so that it can be read without
 * earlier parts, which are overwritten.
 */
export class Track implements Recording {
  readonly rng: RecordedRng;
  readonly observer: Observer;
  readonly name: string;
  readonly configuration: Configuration;
  isClosed = false;
  readonly #balancer: RecordedBalancer;
  readonly #parts: Parts;
  readonly #fields: ReportFields;
  #part: Part | undefined;
  #words = new Uint32Array(0);
  #numbers = new Float64Array(0);
  /** The next free unit, the position where `prepare` starts another part, and the end. */
  #at = 0;
  #softEnd = Number.POSITIVE_INFINITY;
  #end = 0;
  /** When another part starts at the latest. */
  #turnMs = Number.NEGATIVE_INFINITY;
  #calls = 0;
  /** A pick or an end is being written: no part can start. */
  #isBusy = false;
  /** Something did not fit: the part is incomplete. */
  #isLost = false;
  readonly #live: (Live | undefined)[] = [];
  readonly #free: number[] = [];
  #members: readonly (readonly [number, number, 0 | 1])[] = [];
  #out: readonly Out[] = [];
  #version = 0;
  /** The stage that last changed an endpoint for the worse, while stages run. */
  readonly #blamed = new Map<string, number>();

  constructor(balancer: RecordedBalancer, parts: Parts, panicked: () => void) {
    this.#balancer = balancer;
    this.#parts = parts;
    this.name = balancer.name;
    this.rng = new RecordedRng(balancer.rng);
    this.configuration = configurationOf(balancer);
    this.#fields = new ReportFields(this.configuration.load);
    this.observer = this.#observer(panicked);
  }

  get nowMs(): number {
    return this.#balancer.clock.now();
  }

  /** Whether any of it is still kept. */
  get isKept(): boolean {
    return this.isClosed || this.#part !== undefined || this.#turnMs === Number.NEGATIVE_INFINITY;
  }

  /** Reports how much of the current part is used. */
  touch(): void {
    const part = this.#part;
    if (part === undefined) return;
    part.units = this.#at;
    part.toMs = this.nowMs;
  }

  prepare(nowMs: number): void {
    if (this.#at >= this.#softEnd || nowMs >= this.#turnMs) this.#turn(nowMs);
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
    let all = flags;
    if (avoid !== undefined && avoid.size > 0) {
      all |= pickFlags.avoiding;
      this.#avoiding(avoid);
    }
    if (key !== undefined && typeof key === 'string' && key !== '') all |= pickFlags.keyed;
    if (!this.#fits(3)) return 0;
    const began = (flags & pickFlags.began) !== 0;
    if (began) this.#calls = (this.#calls % MAX_CALL) + 1;
    const call = began ? this.#calls : 0;
    const at = this.#at;
    this.#words[2 * at] = kinds.pick | (all << 4) | ((subchannel === undefined ? NOBODY : subchannel.recordedAs) << 12);
    this.#words[2 * at + 1] = call;
    this.#numbers[at + 1] = nowMs;
    this.#at = at + 2;
    if ((all & pickFlags.keyed) !== 0) {
      this.#words[2 * at + 4] = hash32(key as string);
      this.#words[2 * at + 5] = 0;
      this.#at = at + 3;
    }
    return call;
  }

  ended(
    subchannel: RecordedSubchannel,
    call: number,
    nowMs: number,
    outcome: Outcome,
    askedMs: number,
    isMeasured: boolean,
  ): void {
    let flags = outcomeKinds.indexOf(outcome.kind) | (causes.indexOf(outcome.cause) << 2);
    if (isMeasured) flags |= endFlags.measured;
    const { report } = outcome;
    if (report !== undefined && this.#fields.counts === 'at the end' && this.#report(kinds.held, 0, report, 0)) {
      flags |= endFlags.held;
    }
    if (!this.#fits(3)) return;
    const at = this.#at;
    this.#words[2 * at] = kinds.end | (flags << 4) | (subchannel.recordedAs << 12);
    this.#words[2 * at + 1] = call;
    this.#numbers[at + 1] = nowMs;
    this.#numbers[at + 2] = askedMs;
    this.#at = at + 3;
  }

  reported(subchannel: RecordedSubchannel, report: LoadReport, nowMs: number): void {
    if (this.#fields.counts === 'at once') this.#report(kinds.report, subchannel.recordedAs, report, nowMs);
  }

  informed(subchannel: RecordedSubchannel, place: number): void {
    this.#word(kinds.informed, 0, subchannel.recordedAs, place);
  }

  waited(call: number, sinceMs: number): void {
    if (call !== 0 && this.#word(kinds.waited, 0, 0, call, 1)) this.#numbers[this.#at++] = sinceMs;
  }

  refused(sinceMs: number, nowMs: number, code: ErrorCode): void {
    if (!this.#word(kinds.refused, refusals.indexOf(code) & 0xff, 0, 0, 2)) return;
    this.#numbers[this.#at++] = sinceMs;
    this.#numbers[this.#at++] = nowMs;
  }

  created(subchannel: SubchannelToRecord): void {
    const id = this.#free.pop() ?? this.#live.length;
    // More subchannels than there are numbers: these and their calls are not recorded.
    if (id >= NOBODY) return;
    subchannel.recordedAs = id;
    const endpoint = plainEndpoint(subchannel.endpoint);
    this.#live[id] = { subchannel, endpoint, note: undefined };
    this.#json({ k: 'created', id, endpoint });
    this.changed(subchannel);
  }

  changed(subchannel: RecordedSubchannel): void {
    const id = subchannel.recordedAs;
    if (id >= 0) this.#word(kinds.state, states.indexOf(subchannel.state), id, subchannel.room);
  }

  closed(subchannel: RecordedSubchannel): void {
    const id = subchannel.recordedAs;
    if (id < 0 || this.#live[id]?.subchannel !== subchannel) return;
    this.#live[id] = undefined;
    this.#free.push(id);
    this.#json({ k: 'closed', id });
  }

  staged(stage: number, before: EndpointSet, after: EndpointSet): void {
    const then = new Map(before.entries.map((entry) => [entry.endpoint.key, entry]));
    for (const { endpoint, weight } of after.entries) {
      const old = then.get(endpoint.key);
      then.delete(endpoint.key);
      if (old !== undefined && weight < old.weight) this.#blamed.set(endpoint.key, stage);
      else if (old !== undefined && weight > old.weight) this.#blamed.delete(endpoint.key);
    }
    for (const key of then.keys()) this.#blamed.set(key, stage);
  }

  published(known: EndpointSet, members: readonly Member<unknown>[]): void {
    const next = members.map(
      ({ subchannel, weight, suspect }) =>
        [subchannel.recordedAs, Number.isFinite(weight) ? weight : 0, suspect ? 1 : 0] as const,
    );
    const out: Out[] = [];
    const used = new Set<string>();
    for (const { subchannel, weight } of members) {
      const { key } = subchannel.endpoint;
      used.add(key);
      const stage = this.#blamed.get(key);
      if (!(weight > 0) || stage !== undefined) out.push({ id: subchannel.recordedAs, stage: stage ?? -1 });
    }
    for (const { endpoint } of known.entries) {
      if (used.has(endpoint.key)) continue;
      out.push({ id: -1, endpoint: plainEndpoint(endpoint), stage: this.#blamed.get(endpoint.key) ?? -1 });
    }
    this.#blamed.clear();
    const record = changeOf(this.#members, next);
    const isSame = record === undefined && JSON.stringify(out) === JSON.stringify(this.#out);
    if (isSame && known.version === this.#version) return;
    this.#json({
      k: 'set',
      at: this.nowMs,
      version: known.version,
      changed: [],
      ...record,
      ...(JSON.stringify(out) !== JSON.stringify(this.#out) && { out }),
    });
    this.#members = next;
    this.#out = out;
    this.#version = known.version;
  }

  rebuilding(first: readonly RecordedSubchannel[]): void {
    const units = 2 + ((first.length + 1) >> 1);
    if (!this.#word(kinds.rebuild, 0, first.length, 0, units)) return;
    const at = 2 * this.#at;
    for (let word = 0; word < 4; word++) this.#words[at + word] = this.rng.state[word] as number;
    first.forEach((subchannel, index) => {
      this.#words[at + 4 + index] = subchannel.recordedAs;
    });
    this.#at += units;
  }

  close(): void {
    if (this.isClosed) return;
    this.#note({ k: 'note', at: this.nowMs, what: 'closed' });
    this.isClosed = true;
    this.touch();
    if (this.#part !== undefined) this.#parts.done(this.#part);
    this.#part = undefined;
    this.#at = 0;
    this.#softEnd = Number.POSITIVE_INFINITY;
    this.#end = 0;
    this.#live.length = 0;
  }

  #observer(panicked: () => void): Observer {
    const note = (endpoint: Endpoint | undefined, what: Note['what'], more: Partial<Note> = {}): void => {
      const live = endpoint && this.#live.find((each) => each?.endpoint.key === endpoint.key);
      const id = live?.subchannel.recordedAs;
      const text = more.text?.slice(0, MAX_TEXT);
      const made: Note = {
        k: 'note',
        at: this.nowMs,
        what,
        ...more,
        ...(id !== undefined && { id }),
        ...(text && { text }),
      };
      if (live) live.note = what === 'restored' ? undefined : made;
      this.#note(made);
    };
    return {
      ejected: ({ endpoint, reason, durationMs }) => note(endpoint, 'ejected', { text: reason, durationMs }),
      restored: ({ endpoint, reason }) => note(endpoint, 'restored', { text: reason }),
      panicChanged: ({ panicking, suspects, total }) => {
        note(undefined, panicking ? 'panic' : 'calm', { text: `${suspects} of ${total} endpoints are suspect` });
        if (panicking) panicked();
      },
      resolveFailed: ({ error }) => note(undefined, 'resolve-failed', { text: error.message }),
      resolveRecovered: () => note(undefined, 'recovered'),
      subchannelChanged: ({ endpoint, to, error }) => {
        if (to === 'backoff') note(endpoint, 'lost', { text: error?.message ?? 'the connection ended' });
      },
    };
  }

  #note(note: Note): void {
    this.#json(note);
  }

  #avoiding(avoid: ReadonlySet<RecordedSubchannel>): void {
    const units = (avoid.size + 1) >> 1;
    if (!this.#word(kinds.avoid, 0, avoid.size, 0, units)) return;
    let at = 2 * this.#at;
    for (const subchannel of avoid) this.#words[at++] = subchannel.recordedAs;
    this.#at += units;
  }

  #report(kind: number, id: number, report: LoadReport, nowMs: number): boolean {
    const { values } = this.#fields;
    const mask = this.#fields.read(report);
    if (mask === 0) return false;
    const hasTime = kind === kinds.report;
    if (!this.#word(kind, mask, id, 0, values.length + 1)) return false;
    if (hasTime) this.#numbers[this.#at++] = nowMs;
    for (let bit = 0; bit < values.length; bit++) {
      if ((mask & (1 << bit)) !== 0) this.#numbers[this.#at++] = values[bit] as number;
    }
    return true;
  }

  /** Writes the first unit of a record. `more`: how many follow. */
  #word(kind: number, flags: number, id: number, number: number, more = 0): boolean {
    if (!this.#fits(1 + more)) return false;
    const at = this.#at;
    this.#words[2 * at] = kind | (flags << 4) | (id << 12);
    this.#words[2 * at + 1] = number;
    this.#at = at + 1;
    return true;
  }

  #json(record: JsonRecord): void {
    if (this.isClosed) return;
    const bytes = new TextEncoder().encode(JSON.stringify(record));
    const units = Math.ceil(bytes.length / UNIT);
    if (!this.#word(kinds.json, 0, 0, bytes.length, units)) return;
    new Uint8Array(this.#words.buffer).set(bytes, this.#at * UNIT);
    this.#at += units;
  }

  #fits(units: number): boolean {
    if (this.#at + units <= this.#end && !this.#isLost) return true;
    if (this.isClosed) return false;
    if (!this.#isBusy) {
      const { nowMs } = this;
      if (this.#part === undefined && nowMs < this.#turnMs) return false;
      return this.#turn(nowMs) && this.#at + units <= this.#end;
    }
    // The next pick or end starts another part.
    this.#isLost = true;
    this.#turnMs = Number.NEGATIVE_INFINITY;
    return false;
  }

  /** Ends the part and starts another with the complete state. */
  #turn(nowMs: number): boolean {
    if (this.isClosed) return false;
    const start = new TextEncoder().encode(JSON.stringify(this.#start(nowMs)));
    const wasFull = this.#at >= this.#softEnd;
    const least = Math.ceil(start.length / UNIT) + this.#startNumbers() + 2;
    this.touch();
    if (this.#part !== undefined) this.#parts.done(this.#part);
    const part = this.#parts.take(this, 4 * (least + RESERVE), wasFull ? 2 * this.#end : this.#end, nowMs);
    this.#part = part;
    this.#isLost = false;
    this.#turnMs = nowMs + this.#parts.keepMs * TIME_SHARE;
    this.#at = 0;
    if (part === undefined) {
      this.#end = 0;
      this.#softEnd = Number.POSITIVE_INFINITY;
      this.#turnMs = nowMs + RETRY_MS;
      return false;
    }
    this.#words = new Uint32Array(part.buffer);
    this.#numbers = new Float64Array(part.buffer);
    this.#end = this.#numbers.length;
    this.#softEnd = this.#end - RESERVE;
    this.#word(kinds.json, 0, 0, start.length, 0);
    new Uint8Array(part.buffer).set(start, this.#at * UNIT);
    this.#at += Math.ceil(start.length / UNIT);
    this.#writeNumbers();
    this.#balancer.refresh();
    return true;
  }

  #start(nowMs: number): JsonRecord {
    const set = this.#balancer.pickSet();
    const idOf = ({ recordedAs }: RecordedSubchannel): number => recordedAs;
    const live = this.#live.filter((each) => each !== undefined);
    return {
      k: 'start',
      at: nowMs,
      calls: this.#calls,
      version: this.#version,
      subchannels: live.map(({ subchannel, endpoint }) => ({
        id: subchannel.recordedAs,
        endpoint,
        state: states.indexOf(subchannel.state),
        room: subchannel.room,
        inFlight: subchannel.inFlight,
        started: subchannel.started,
      })),
      members: this.#members,
      out: this.#out,
      ...(set !== undefined && {
        set: {
          ready: set.subchannels.map(idOf),
          weights: set.weights,
          all: set.all.map(idOf),
          allWeights: set.allWeights,
        },
      }),
      informed: this.#balancer.informed().map(idOf),
      chance: [...this.rng.state],
      memory: this.#memory()?.length ?? 0,
      fields: this.#loadFields(),
      notes: live.flatMap(({ note }) => note ?? []),
    };
  }

  #memory(): readonly number[] | undefined {
    const load = this.#anyLoad();
    return load?.rule.memory?.();
  }

  #loadFields(): number {
    return this.#anyLoad()?.fields ?? 0;
  }

  #anyLoad(): RuledLoad | undefined {
    const load = this.#live.find((each) => each !== undefined)?.subchannel.load;
    return load instanceof RuledLoad ? load : undefined;
  }

  #startNumbers(): number {
    let count = 0;
    for (const live of this.#live) if (live !== undefined) count++;
    return 1 + (this.#memory()?.length ?? 0) + count * this.#loadFields();
  }

  #writeNumbers(): void {
    const memory = this.#memory() ?? [];
    const fields = this.#loadFields();
    this.#word(kinds.numbers, 0, 0, this.#startNumbers() - 1);
    for (const number of memory) this.#numbers[this.#at++] = number;
    for (const live of this.#live) {
      const load = live?.subchannel.load;
      if (live === undefined) continue;
      if (load instanceof RuledLoad && load.fields === fields) {
        this.#numbers.set(load.numbers.subarray(load.at, load.at + fields), this.#at);
      } else this.#numbers.fill(0, this.#at, this.#at + fields);
      this.#at += fields;
    }
  }
}

function plainEndpoint({ key, address, port, name, zone, nodeName }: Endpoint): RecordedEndpoint {
  return {
    key,
    address,
    port,
    ...(name !== undefined && { name }),
    ...(zone !== undefined && { zone }),
    ...(nodeName !== undefined && { node: nodeName }),
  };
}

type Members = readonly (readonly [number, number, 0 | 1])[];

/** The difference between `before` and `next`; undefined if they are equal. */
function changeOf(
  before: Members,
  next: Members,
): { order?: readonly [number, number, readonly number[]]; changed: Members } | undefined {
  const shorter = Math.min(before.length, next.length);
  let front = 0;
  while (front < shorter && before[front]?.[0] === next[front]?.[0]) front++;
  let back = 0;
  while (back < shorter - front && before.at(-1 - back)?.[0] === next.at(-1 - back)?.[0]) back++;
  const isSameOrder = front === before.length && front === next.length;
  const known = new Map(before.map((member) => [member[0], member]));
  const changed = next.filter(([id, weight, suspect]) => {
    const old = known.get(id);
    return old === undefined || old[1] !== weight || old[2] !== suspect;
  });
  if (isSameOrder && changed.length === 0) return undefined;
  const between = next.slice(front, next.length - back).map(([id]) => id);
  return isSameOrder ? { changed } : { order: [front, back, between], changed };
}
