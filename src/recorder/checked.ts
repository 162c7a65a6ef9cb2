import type { Note, Out, RecordedEndpoint, Start } from './format.js';
import { unreadable } from './format.js';
import { list, number, object, string, whole } from './read-dump.js';

const noteKinds: ReadonlySet<unknown> = new Set<Note['what']>([
  'ejected',
  'restored',
  'panic',
  'calm',
  'lost',
  'resolve-failed',
  'recovered',
  'closed',
]);

export function checkNote(value: unknown): Note {
  const { at, what, id, text, durationMs } = object(value, 'note');
  if (!noteKinds.has(what)) throw unreadable('a note is of no known kind');
  return {
    k: 'note',
    at: number(at, 'at'),
    what: what as Note['what'],
    ...(id !== undefined && { id: whole(id, 'id') }),
    ...(text !== undefined && { text: string(text, 'text') }),
    ...(durationMs !== undefined && durationMs !== null && { durationMs: number(durationMs, 'durationMs') }),
  };
}

export function checkOut(value: unknown): Out {
  const { id, endpoint, stage } = object(value, 'out');
  return {
    id: number(id, 'id'),
    stage: number(stage, 'stage'),
    ...(endpoint !== undefined && { endpoint: endpointOf(object(endpoint, 'endpoint')) }),
  };
}

export function endpointOf(value: Record<string, unknown>): RecordedEndpoint {
  const { key, address, port, name, zone, node } = value;
  return {
    key: string(key, 'key'),
    address: string(address, 'address'),
    port: whole(port, 'port'),
    ...(name !== undefined && { name: string(name, 'name') }),
    ...(zone !== undefined && { zone: string(zone, 'zone') }),
    ...(node !== undefined && { node: string(node, 'node') }),
  };
}

export function checkStart(value: unknown): Start {
  const start = object(value, 'start');
  if (start.k !== 'start') throw unreadable('a part has no beginning');
  const ids = (of: unknown): number[] => list(of, 'ids').map((id) => whole(id, 'id'));
  const weights = (of: unknown): number[] =>
    list(of, 'weights').map((weight) => {
      if (!(number(weight, 'weight') > 0)) throw unreadable('a weight is not above 0');
      return weight as number;
    });
  const set = start.set === undefined ? undefined : object(start.set, 'set');
  const chance = list(start.chance, 'chance').map((word) => number(word, 'chance'));
  if (chance.length !== 4) throw unreadable('the state of chance is not complete');
  const checked: Start = {
    k: 'start',
    at: number(start.at, 'at'),
    calls: whole(start.calls, 'calls'),
    version: whole(start.version, 'version'),
    subchannels: list(start.subchannels, 'subchannels').map((each) => {
      const { id, endpoint, state, room, inFlight, started } = object(each, 'subchannel');
      const running = number(inFlight, 'inFlight');
      if (!Number.isInteger(running) || Math.abs(running) > 1e9) throw unreadable('inFlight is no count');
      return {
        id: whole(id, 'id'),
        endpoint: endpointOf(object(endpoint, 'endpoint')),
        state: whole(state, 'state'),
        room: number(room, 'room') | 0,
        inFlight: running,
        started: whole(started, 'started'),
      };
    }),
    members: list(start.members, 'members').map((each) => {
      const [id, weight, suspect] = list(each, 'member');
      return [whole(id, 'id'), number(weight, 'weight'), suspect === 1 ? 1 : 0] as const;
    }),
    out: list(start.out, 'out').map(checkOut),
    ...(set !== undefined && {
      set: {
        ready: ids(set.ready),
        weights: weights(set.weights),
        all: ids(set.all),
        allWeights: weights(set.allWeights),
      },
    }),
    chance,
    memory: whole(start.memory, 'memory'),
    fields: whole(start.fields, 'fields'),
    notes: list(start.notes, 'notes').map(checkNote),
  };
  const { set: built } = checked;
  if (
    built !== undefined &&
    (built.ready.length !== built.weights.length || built.all.length !== built.allWeights.length)
  ) {
    throw unreadable('endpoints and weights are not equally many');
  }
  return checked;
}
