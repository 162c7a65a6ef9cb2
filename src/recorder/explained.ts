import type { LoadFacts } from '../load/load.js';
import type { Note, RecordedEndpoint } from './format.js';
import { type LastCall, LastCalls } from './last-calls.js';
import { type LeftOut, leftOutOf } from './left-out.js';
import { type DumpedBalancer, reading } from './read-dump.js';
import type { ReplayedEnd } from './replayed-event.js';
import { Replica } from './replica.js';
import { type Look, ReplicaSubchannel } from './replica-subchannel.js';

/** An endpoint that the picker considered for a call. */
export interface Candidate {
  readonly endpoint: RecordedEndpoint;
  /** The cost that the picker read; undefined if the picker only read whether the endpoint has room, or if costs are unknown. */
  readonly cost: number | undefined;
  readonly hasRoom: boolean;
  readonly inFlight: number;
  readonly weight: number;
  readonly facts: LoadFacts;
  /** The last call on the endpoint; undefined if none ended in the recording. */
  readonly last: LastCall | undefined;
  readonly isWinner: boolean;
}

/** Why a call went to its endpoint. */
export interface ExplainedCall {
  readonly call: number;
  readonly atMs: number;
  readonly endpoint: RecordedEndpoint;
  /** How many endpoints the set had (`listed`), and how many of them the picker could choose from (`ready`). */
  readonly listed: number;
  readonly ready: number;
  readonly version: number;
  readonly leftOut: readonly LeftOut[];
  /** Endpoints that the stages did not exclude, but whose weight a stage lowered. */
  readonly lighter: readonly { readonly endpoint: RecordedEndpoint; readonly stage: number; readonly weight: number }[];
  /** The endpoints that the picker considered, in order; empty if it considers none. */
  readonly looked: readonly Candidate[];
  /** The candidates that have a place in an order of preference, in this order; at most 8, including the winner. */
  readonly ordered: readonly Candidate[];
  /** The load's numbers for all endpoints that the picker could choose from, cheapest first; at most 8, including the winner. */
  readonly cheapest: readonly Candidate[];
  readonly equalWeights: boolean;
  readonly keyed: boolean;
  /** The endpoints on which the call was tried before. */
  readonly avoided: readonly RecordedEndpoint[];
  /** How long the call waited for an endpoint, in ms. */
  readonly waitedMs: number | undefined;
  readonly end:
    | { readonly outcome: ReplayedEnd['outcome']; readonly afterMs: number; readonly latencyMs: number }
    | undefined;
  /** Whether a replayed picker chooses the recorded endpoint; `'unknown'` for the application's own picker. */
  readonly again: 'same' | 'another' | 'unknown';
  readonly knowsLoad: boolean;
}

/** Explains the pick of a call; undefined if the recording has no such call. Throws EVENKEEL_RECORDING. */
export function explainCall({ configuration, parts }: DumpedBalancer, call: number): ExplainedCall | undefined {
  return reading(() => {
    let explained: ExplainedCall | undefined;
    const lastCalls = new LastCalls();
    for (const part of parts) {
      const replica = new Replica(configuration, part);
      let looks: Look[] = [];
      replica.beforePick = (pick) => {
        if (pick.call === call && explained === undefined) ReplicaSubchannel.looks = looks = [];
      };
      try {
        for (let event = replica.next(); event !== undefined; event = replica.next()) {
          ReplicaSubchannel.looks = undefined;
          if (!('is' in event)) continue;
          if (event.is === 'end') lastCalls.ended(event);
          if (event.is === 'pick' && event.call === call && event.recorded !== undefined && explained === undefined) {
            explained = stateAt(replica, event as never, looks, lastCalls);
          } else if (event.is === 'waited' && event.call === call && explained !== undefined) {
            explained = { ...explained, waitedMs: explained.atMs - event.sinceMs };
          } else if (event.is === 'end' && event.call === call && explained !== undefined) {
            const { outcome, latencyMs, atMs } = event;
            return { ...explained, end: { outcome, latencyMs, afterMs: atMs - explained.atMs } };
          }
        }
      } finally {
        ReplicaSubchannel.looks = undefined;
      }
    }
    return explained;
  });
}

interface Picked {
  readonly atMs: number;
  readonly call: number;
  readonly recorded: ReplicaSubchannel;
  readonly again: ReplicaSubchannel | undefined | 'unknown';
  readonly avoid: ReadonlySet<ReplicaSubchannel> | undefined;
  readonly keyed: boolean;
}

/** How many of the cheapest endpoints an explanation lists. */
const CHEAPEST = 8;

function stateAt(
  replica: Replica,
  { atMs, call, recorded, again, avoid, keyed }: Picked,
  looks: Look[],
  lastCalls: LastCalls,
): ExplainedCall {
  const { set, members, out } = replica;
  const ready = (set?.targets ?? []) as unknown as readonly ReplicaSubchannel[];
  const weightOf = new Map(ready.map((subchannel, index) => [subchannel, set?.weights[index] ?? 0]));
  const candidate = (subchannel: ReplicaSubchannel, look: Partial<Look>): Candidate => ({
    endpoint: subchannel.endpoint,
    cost: replica.knowsLoad ? look.cost : undefined,
    hasRoom: look.hasRoom ?? true,
    inFlight: look.inFlight ?? subchannel.inFlight,
    weight: weightOf.get(subchannel) ?? 0,
    facts: subchannel.facts(atMs),
    last: lastCalls.of(subchannel),
    isWinner: subchannel === recorded,
  });
  // The recorded call has started by now, so it is subtracted: `cost` counts the call to come as one more.
  recorded.inFlight--;
  const costs = ready.map((subchannel) =>
    candidate(subchannel, { cost: subchannel.cost(atMs), hasRoom: subchannel.hasRoom }),
  );
  recorded.inFlight++;
  const sorted = costs.toSorted((a, b) => (a.cost ?? 0) - (b.cost ?? 0));
  const cheapest = sorted.filter((each, index) => index < CHEAPEST || each.isWinner).slice(-CHEAPEST - 1);
  const ordered = costs
    .filter(({ facts }) => facts.place !== undefined)
    .sort((a, b) => (a.facts.place ?? 0) - (b.facts.place ?? 0))
    .filter((each, index) => index < CHEAPEST || each.isWinner);
  const lighter: { endpoint: RecordedEndpoint; stage: number; weight: number }[] = [];
  const stageOf = new Map(out.map(({ id, stage }) => [id, stage]));
  for (const { subchannel, weight } of members) {
    const stage = stageOf.get(subchannel.recordedAs);
    if (stage !== undefined && weight > 0 && weightOf.has(subchannel)) {
      lighter.push({ endpoint: subchannel.endpoint, stage, weight });
    }
  }
  return {
    call,
    atMs,
    endpoint: recorded.endpoint,
    listed: members.length + out.filter(({ id }) => id < 0).length,
    ready: ready.length,
    version: replica.version,
    leftOut: leftOutOf(replica),
    lighter,
    looked: onceEach(looks).map((look) => candidate(look.subchannel, look)),
    ordered,
    cheapest,
    equalWeights: set?.equalWeights ?? true,
    keyed,
    avoided: [...(avoid ?? [])].map(({ endpoint }) => endpoint),
    waitedMs: undefined,
    end: undefined,
    again: again === 'unknown' ? 'unknown' : again === recorded ? 'same' : 'another',
    knowsLoad: replica.knowsLoad,
  };
}

/** Merges the picker's reads of each endpoint into one, because it may have read both the endpoint's room and its cost. */
function onceEach(looks: readonly Look[]): Look[] {
  const seen = new Map<ReplicaSubchannel, Look>();
  for (const look of looks) {
    const merged = seen.get(look.subchannel);
    if (merged === undefined) seen.set(look.subchannel, { ...look });
    else merged.cost ??= look.cost;
  }
  return [...seen.values()];
}

/** A call as `evenkeel explain` lists it. */
export interface ListedCall {
  readonly call: number;
  readonly atMs: number;
  readonly endpoint: RecordedEndpoint;
  readonly isRetry: boolean;
  waitedMs?: number;
  end?: { readonly outcome: ReplayedEnd['outcome']; readonly afterMs: number };
}

/** The contents of a balancer's recording. */
export interface Contents {
  readonly calls: readonly ListedCall[];
  readonly notes: readonly { readonly note: Note; readonly endpoint: RecordedEndpoint | undefined }[];
  readonly refused: number;
  readonly fromMs: number;
  readonly toMs: number;
  /** How many picks were recorded, and how many of them are the same when replayed. */
  readonly picks: number;
  readonly same: number;
}

/** Lists what a recording contains. Throws EVENKEEL_RECORDING. */
export function contentsOf({ configuration, parts }: DumpedBalancer): Contents {
  return reading(() => {
    const calls = new Map<number, ListedCall>();
    const notes: { note: Note; endpoint: RecordedEndpoint | undefined }[] = [];
    let [refused, picks, same] = [0, 0, 0];
    let [fromMs, toMs] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (const part of parts) {
      const replica = new Replica(configuration, part);
      fromMs = Math.min(fromMs, replica.startMs);
      toMs = Math.max(toMs, replica.startMs);
      for (let event = replica.next(); event !== undefined; event = replica.next()) {
        if (!('is' in event)) {
          const of = [...replica.subchannels].find(({ recordedAs }) => recordedAs === event.id);
          notes.push({ note: event, endpoint: event.id === undefined ? undefined : of?.endpoint });
          continue;
        }
        if (event.is === 'waited') {
          const call = calls.get(event.call);
          if (call !== undefined) call.waitedMs = call.atMs - event.sinceMs;
          continue;
        }
        toMs = Math.max(toMs, event.atMs);
        if (event.is === 'refused') refused++;
        else if (event.is === 'pick') {
          picks++;
          if (event.again === event.recorded) same++;
          const { call, atMs, recorded, avoid } = event;
          if (call === 0 || recorded === undefined) continue;
          calls.set(call, { call, atMs, endpoint: recorded.endpoint, isRetry: avoid !== undefined });
        } else if (event.is === 'end') {
          const call = calls.get(event.call);
          if (call !== undefined) call.end = { outcome: event.outcome, afterMs: event.atMs - call.atMs };
        }
      }
    }
    return { calls: [...calls.values()], notes, refused, fromMs, toMs, picks, same };
  });
}
