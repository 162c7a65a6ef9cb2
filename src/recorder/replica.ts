import { pickSetOf } from '../balancer/current-picker.js';
import { pickFlags } from '../call/recording.js';
import type { LoadReport, Outcome } from '../endpoint/outcome.js';
import { inFlight } from '../load/in-flight.js';
import type { Load, LoadFactory } from '../load/load.js';
import { RuledLoad } from '../load/load-rule.js';
import { Warnings } from '../observe/warnings.js';
import { createPickRequest, type OwnTarget, type Picker, type PickerFactory, type PickSet } from '../picker/picker.js';
import type { Member } from '../pool/pool.js';
import type { Subchannel } from '../pool/subchannel.js';
import { Sfc32 } from '../runtime/rng.js';
import { checkNote, checkOut, endpointOf } from './checked.js';
import {
  type Configuration,
  causes,
  endFlags,
  type JsonRecord,
  kinds,
  type Members,
  NOBODY,
  type Note,
  type Out,
  outcomeKinds,
  refusals,
  states,
  unreadable,
} from './format.js';
import { keyOfHash } from './key-of-hash.js';
import { make } from './makers.js';
import { PartReader } from './part-reader.js';
import { list, number, object, whole } from './read-dump.js';
import type { RecordPlace } from './records.js';
import type { ReplayedEnd, ReplayedEvent, ReplayedPick } from './replayed-event.js';
import { ReplicaSubchannel, replicaClock } from './replica-subchannel.js';
import { ReportFields } from './report-fields.js';
import { changedBy } from './set-changes.js';

interface ReplicaMember {
  readonly subchannel: ReplicaSubchannel;
  readonly weight: number;
  readonly suspect: boolean;
}

/**
 * A part of a recording that is replayed through the pickers and loads of a balancer. At each pick it knows what the balancer knew then.
 */
export class Replica {
  members: readonly ReplicaMember[] = [];
  out: readonly Out[] = [];
  version = 0;
  startMs = 0;
  /** The number of the last call before the part of the recording. */
  callsBefore = 0;
  /** The set with which the current picker was built. */
  set: PickSet<OwnTarget> | undefined;
  /** Whether picks can be made again (the picker is evenkeel's own), and whether the costs of endpoints are known (the load is). */
  readonly knowsPicker: boolean;
  readonly knowsLoad: boolean;
  /** The last note about each subchannel's endpoint, while it holds. */
  readonly notes: Map<ReplicaSubchannel, Note> = new Map();
  /** Called before a recorded pick is made again. */
  beforePick: ((pick: { readonly atMs: number; readonly call: number }) => void) | undefined;
  readonly #part: PartReader;
  readonly #picker: PickerFactory | undefined;
  readonly #load: LoadFactory;
  readonly #metric: string | undefined;
  readonly #rng = new Sfc32();
  readonly #loads = { loads: new Set<Load>() };
  readonly #byId = new Map<number, ReplicaSubchannel>();
  readonly #warnings = new Warnings({}, replicaClock);
  readonly #request = createPickRequest();
  #current: Picker | undefined;
  #avoid: Set<ReplicaSubchannel> | undefined;
  #held: LoadReport | undefined;

  constructor(configuration: Configuration, part: Uint8Array<ArrayBuffer>) {
    const { picker, load } = configuration;
    this.knowsPicker = picker !== undefined;
    this.knowsLoad = load !== undefined;
    this.#picker = picker && make.picker(picker);
    this.#load = load === undefined ? inFlight() : make.load(load);
    const metric = load?.options.metric;
    this.#metric = typeof metric === 'string' ? metric : undefined;
    this.#part = new PartReader(part);
    this.#start();
  }

  /**
   * Replays records up to the next event, which is returned. Undefined at the end of the part, and when the next record is later than
   * `untilMs`; the part cannot be continued after that.
   */
  next(untilMs: number = Number.POSITIVE_INFINITY): ReplayedEvent | undefined {
    for (;;) {
      const record = this.#part.next();
      if (record === undefined || (untilMs !== Number.POSITIVE_INFINITY && this.#timeOf(record) > untilMs)) {
        return undefined;
      }
      const event = this.#play(record);
      if (event !== undefined) return event;
    }
  }

  /** When a record was made, on the recorded clock; -Infinity if the record has no time. */
  #timeOf(record: RecordPlace): number {
    const { kind, at } = record;
    switch (kind) {
      case kinds.json: {
        const json = this.#part.json(record);
        return 'at' in json ? number(json.at, 'at') : Number.NEGATIVE_INFINITY;
      }
      case kinds.pick:
      case kinds.end:
      case kinds.report:
        return this.#part.time(at + 1);
      case kinds.refused:
        return this.#part.time(at + 2);
      default:
        return Number.NEGATIVE_INFINITY;
    }
  }

  /** All subchannels, including those that drain or have closed. */
  get subchannels(): Iterable<ReplicaSubchannel> {
    return this.#byId.values();
  }

  #play(record: RecordPlace): ReplayedEvent | undefined {
    const { kind, flags, id, number: word, at } = record;
    switch (kind) {
      case kinds.json:
        return this.#json(this.#part.json(record));
      case kinds.state: {
        const subchannel = this.#of(id);
        subchannel.becomes(states[flags] ?? 'closed', word | 0);
        if (subchannel.state === 'ready' && this.notes.get(subchannel)?.what === 'lost') this.notes.delete(subchannel);
        return undefined;
      }
      case kinds.pick:
        return this.#pick(record);
      case kinds.end:
        return this.#end(record);
      case kinds.report: {
        const atMs = this.#part.time(at + 1);
        this.#of(id).reported(this.#report(flags, at + 2), atMs);
        return { is: 'reported', atMs };
      }
      case kinds.held:
        this.#held = this.#report(flags, at + 1);
        return undefined;
      case kinds.rebuild:
        this.#rebuild(record);
        return undefined;
      case kinds.waited:
        return { is: 'waited', call: word, sinceMs: this.#part.time(at + 1) };
      case kinds.refused: {
        const [sinceMs, atMs] = [this.#part.time(at + 1), this.#part.time(at + 2)];
        return { is: 'refused', sinceMs, atMs, code: refusals[flags] ?? 'EVENKEEL_NOT_READY' };
      }
      case kinds.avoid:
        this.#avoid = new Set(this.#part.ids(at + 1, id).map((each) => this.#of(each)));
        return undefined;
      default:
        return undefined;
    }
  }

  #pick({ flags, id, number: call, at }: RecordPlace): ReplayedPick {
    const atMs = this.#part.time(at + 1);
    const recorded = id === NOBODY ? undefined : this.#of(id);
    const keyed = (flags & pickFlags.keyed) !== 0;
    const avoid = (flags & pickFlags.avoiding) === 0 ? undefined : this.#avoid;
    this.#avoid = undefined;
    this.beforePick?.({ atMs, call });
    const key = keyed ? keyOfHash(this.#part.word(at + 2)) : undefined;
    let again: ReplayedPick['again'] = 'unknown';
    if (this.#current !== undefined) {
      const request = this.#request;
      request.nowMs = atMs;
      request.key = key;
      request.avoid = avoid as never;
      again = this.#current.pick(request) as unknown as ReplicaSubchannel | undefined;
    }
    if ((flags & pickFlags.began) !== 0 && recorded !== undefined) recorded.start(atMs);
    return { is: 'pick', atMs, call, recorded, again, avoid, keyed, key };
  }

  #end({ flags, id, number: call, at }: RecordPlace): ReplayedEnd {
    const subchannel = this.#of(id);
    const atMs = this.#part.time(at + 1);
    const measuredFromMs = this.#part.time(at + 2);
    const kind = outcomeKinds[flags & 3] as Outcome['kind'];
    const cause = causes[(flags >> 2) & 7];
    const report = (flags & endFlags.held) === 0 ? undefined : this.#held;
    const outcome: Outcome = { kind, ...(cause !== undefined && { cause }), ...(report !== undefined && { report }) };
    this.#held = undefined;
    const isMeasured = (flags & endFlags.measured) !== 0;
    subchannel.end(measuredFromMs, atMs, outcome, measuredFromMs, isMeasured);
    this.#current?.ended?.(subchannel as never);
    return { is: 'end', atMs, call, subchannel, outcome, latencyMs: atMs - measuredFromMs, isMeasured };
  }

  #rebuild({ id: count, at }: RecordPlace): void {
    this.#rng.state.set(this.#part.ids(at + 1, 4));
    const first = this.#part.ids(at + 3, count).map((each) => this.#of(each));
    this.set = pickSetOf(
      this.members as unknown as readonly Member<unknown>[],
      count > 0 ? (first as never) : undefined,
    );
    this.#current = this.#picker?.(this.set, this.#current, { rng: this.#rng });
  }

  #json(record: JsonRecord): ReplayedEvent | undefined {
    switch (record.k) {
      case 'created':
        this.#create(whole(record.id, 'id'), record.endpoint);
        return undefined;
      case 'closed':
        this.#close(this.#of(record.id));
        return undefined;
      case 'set':
        this.#changeSet(record);
        return { is: 'set', atMs: number(record.at, 'at') };
      case 'note':
        return this.#note(checkNote(record));
      default:
        throw unreadable('a part begins in the middle of another');
    }
  }

  /** Closes a subchannel. It stays known by its number until another subchannel gets the number, because calls on it may still end. */
  #close(subchannel: ReplicaSubchannel): void {
    subchannel.becomes('closed', 0);
    this.#loads.loads.delete(subchannel.load);
    this.notes.delete(subchannel);
  }

  #note(note: Note): Note {
    const subchannel = note.id === undefined ? undefined : this.#byId.get(note.id);
    if (subchannel !== undefined) {
      if (note.what === 'restored') this.notes.delete(subchannel);
      else this.notes.set(subchannel, note);
    }
    return note;
  }

  #changeSet(record: JsonRecord & { readonly k: 'set' }): void {
    this.version = whole(record.version, 'version');
    const before = this.members.map(
      ({ subchannel, weight, suspect }) => [subchannel.recordedAs, weight, suspect ? 1 : 0] as const,
    );
    this.members = this.#membersOf(changedBy(record, before));
    if (record.out !== undefined) this.out = list(record.out, 'out').map(checkOut);
  }

  #membersOf(members: Members): readonly ReplicaMember[] {
    return members.map(([id, weight, suspect]) => ({ subchannel: this.#of(id), weight, suspect: suspect === 1 }));
  }

  #start(): void {
    const { start, numbersAt } = this.#part.start();
    const { memory, fields } = start;
    this.startMs = start.at;
    this.callsBefore = start.calls;
    this.version = start.version;
    this.out = start.out;
    let from = numbersAt + memory;
    const cells: RuledLoad[] = [];
    for (const { id, endpoint, state, room, inFlight: running, started } of start.subchannels) {
      const subchannel = this.#create(id, endpoint);
      subchannel.becomes(states[state] ?? 'closed', room);
      subchannel.inFlight = running;
      subchannel.started = started;
      const { load } = subchannel;
      if (subchannel.state === 'closed') this.#close(subchannel);
      if (load instanceof RuledLoad && load.fields === fields) {
        for (let field = 0; field < fields; field++) load.numbers[load.at + field] = this.#part.number(from + field);
        cells.push(load);
      }
      from += fields;
    }
    if (memory > 0) cells[0]?.rule.recall?.(this.#part.numbers(numbersAt, memory), cells);
    this.members = this.#membersOf(start.members);
    for (const note of start.notes) this.#note(note);
    this.#rng.state.set(start.chance);
    if (start.set !== undefined) {
      const { ready, weights, all, allWeights } = start.set;
      const of = (ids: readonly number[]) => ids.map((id) => this.#of(id)) as never as readonly Subchannel<unknown>[];
      const equalWeights = weights.every((weight) => weight === weights[0]);
      this.set = { targets: of(ready), weights, equalWeights, all: of(all), allWeights };
      this.#current = this.#picker?.(this.set, undefined, { rng: this.#rng });
    }
  }

  #create(id: number, endpoint: unknown): ReplicaSubchannel {
    let load: Load;
    try {
      load = this.#load(this.#loads);
    } catch {
      load = inFlight()();
    }
    const subchannel = new ReplicaSubchannel(id, endpointOf(object(endpoint, 'endpoint')), load, this.#warnings);
    this.#loads.loads.add(load);
    this.#byId.set(id, subchannel);
    return subchannel;
  }

  #of(id: number): ReplicaSubchannel {
    const subchannel = this.#byId.get(id);
    if (subchannel === undefined) throw unreadable(`endpoint ${id} is not known`);
    return subchannel;
  }

  #report(mask: number, from: number): LoadReport {
    return ReportFields.report(mask, this.#part.fields(from, mask), this.#metric);
  }
}
