import type { Outcome } from '../endpoint/outcome.js';
import type { CallNote, Protocol, ProtocolMeter } from '../observe/live-balancers.js';
import type { MetricName } from './catalogue.js';
import type { Convention } from './metric.js';
import type { SeriesAttributes, SeriesSet } from './series.js';
import { type Alias, Durations, type Recorder } from './target-meter.js';

/** The largest number of series for one protocol and server. Further operations share the name `_OTHER` (HTTP) or `other`. */
const MAX_SERIES = 300;

/** The HTTP methods that OpenTelemetry's conventions name; any other is reported as `_OTHER`. */
const httpMethods: ReadonlySet<string> = new Set([
  ...['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS', 'CONNECT', 'TRACE', 'QUERY'],
]);
const grpcStatuses: readonly string[] = [
  ...['OK', 'CANCELLED', 'UNKNOWN', 'INVALID_ARGUMENT', 'DEADLINE_EXCEEDED', 'NOT_FOUND', 'ALREADY_EXISTS'],
  ...['PERMISSION_DENIED', 'RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION', 'ABORTED', 'OUT_OF_RANGE', 'UNIMPLEMENTED'],
  ...['INTERNAL', 'UNAVAILABLE', 'DATA_LOSS', 'UNAUTHENTICATED'],
];
const UNKNOWN = 2;

type End = number | string;

/** The durations of one operation by how it ended, so that recording one takes two look-ups. */
type ByEnd = Map<End, Durations>;

interface Words {
  readonly attempts: MetricName;
  readonly calls?: MetricName;
  readonly other: string;
  /**
   * Returns the operation under the name that is reported. Operations without a name of their own become `other`, because whoever sends
   * requests could invent any number of names.
   */
  operation(operation: string): string;
  /** Returns the status under the name that is reported. Unknown ones share a name, because the server could invent any number of them. */
  status(status: End): End;
  /** The attributes by which a naming convention describes an operation. */
  named(operation: string): SeriesAttributes;
  ended(end: End): SeriesAttributes;
}

const words: Readonly<Record<Protocol['conventions'], Words>> = {
  http: {
    attempts: 'http.client.request.duration',
    other: '_OTHER',
    operation: (method) => (httpMethods.has(method) ? method : '_OTHER'),
    status: (status) => status,
    named: (method) => ({ 'http.request.method': method }),
    ended: (end) => {
      if (typeof end === 'string') return { 'error.type': end };
      return { 'http.response.status_code': end, ...(end >= 400 && { 'error.type': String(end) }) };
    },
  },
  grpc: {
    attempts: 'grpc.client.attempt.duration',
    calls: 'grpc.client.call.duration',
    other: 'other',
    operation: (path) => path,
    status: (status) => (grpcStatuses[Number(status)] === undefined ? UNKNOWN : status),
    named: (path) => ({ 'grpc.method': path.replace(/^\//, '') }),
    ended: (end) => ({ 'grpc.status': grpcStatuses[Number(end)] as string }),
  },
  db: {
    attempts: 'db.client.operation.duration',
    other: 'other',
    operation: (operation) => operation,
    status: (status) => (isCode(status) ? status : 'other'),
    named: () => ({}),
    ended: (end) => {
      if (end === 'success') return {};
      return { ...(isCode(end) && { 'db.response.status_code': String(end) }), 'error.type': String(end) };
    },
  },
};

/** Whether a status is a database's error code: a number, or an SQLSTATE. */
const isCode = (end: End): boolean => typeof end === 'number' || /^[0-9A-Z]{5}$/.test(end);

/** Returns OpenTelemetry's name and attributes for durations that gRPC's convention names differently. */
function rpcCall(attributes: SeriesAttributes): Alias {
  const status = String(attributes['grpc.status']);
  const [, address, port] = /^(.*):(\d+)$/.exec(String(attributes['grpc.target'])) ?? [];
  return {
    name: 'rpc.client.call.duration',
    attributes: Object.freeze({
      'rpc.system.name': 'grpc',
      'server.address': address ?? String(attributes['grpc.target']),
      ...(port !== undefined && { 'server.port': Number(port) }),
      'rpc.method': String(attributes['grpc.method']),
      'rpc.response.status_code': status,
      ...(status !== 'OK' && { 'error.type': status }),
    }),
  };
}

/** Measures calls under the names of their protocol's convention, for all balancers with the same protocol and server. */
export class ProtocolDurations implements ProtocolMeter {
  readonly #protocol: Protocol;
  readonly #words: Words;
  readonly #recorders: ReadonlySet<Recorder>;
  readonly #all: Durations[] = [];
  readonly #attempts = new Map<string, ByEnd>();
  readonly #calls = new Map<string, ByEnd>();
  readonly #started = new Map<string, number>();

  constructor(protocol: Protocol, recorders: ReadonlySet<Recorder>) {
    this.#protocol = protocol;
    this.#words = words[protocol.conventions];
    this.#recorders = recorders;
  }

  attemptStarted(operation: string): void {
    const { other } = this.#words;
    const known = this.#words.operation(operation);
    const name = this.#started.has(known) || this.#started.size < MAX_SERIES ? known : other;
    this.#started.set(name, (this.#started.get(name) ?? 0) + 1);
  }

  attemptEnded({ operation, status }: CallNote, { kind, cause }: Outcome, durationMs: number): void {
    // Nothing was sent in this attempt, and the conventions count only what was sent.
    if (kind === 'not-started' && status === undefined) return;
    const ended = kind === 'success' ? 'success' : (cause ?? kind);
    const end = status === undefined ? ended : this.#words.status(status);
    this.#at(this.#attempts, this.#words.attempts, this.#words.operation(operation), end).record(durationMs);
  }

  callEnded(operation: string, status: number, durationMs: number): void {
    const { calls } = this.#words;
    if (calls !== undefined) this.#at(this.#calls, calls, operation, this.#words.status(status)).record(durationMs);
  }

  addTo(set: SeriesSet, conventions: readonly Convention[]): void {
    for (const { alias, histogram } of this.#all) {
      if (alias !== undefined && conventions.includes('rpc')) set.addHistogram(alias.name, alias.attributes, histogram);
    }
    if (!conventions.includes(this.#protocol.conventions)) return;
    for (const { name, attributes, histogram } of this.#all) set.addHistogram(name, attributes, histogram);
    for (const [operation, count] of this.#started) {
      const attributes = { ...this.#protocol.attributes, ...this.#words.named(operation) };
      set.add('grpc.client.attempt.started', attributes, count);
    }
  }

  #at(operations: Map<string, ByEnd>, name: MetricName, operation: string, end: End): Durations {
    const found = operations.get(operation)?.get(end);
    if (found !== undefined) return found;
    // The maps have one entry per series, because operations that share a series got the same name before this.
    const isFull = this.#all.length >= MAX_SERIES;
    const known = isFull ? this.#words.other : operation;
    const knownEnd = isFull && this.#protocol.conventions === 'db' && isCode(end) ? 'other' : end;
    let byEnd = operations.get(known);
    if (byEnd === undefined) {
      byEnd = new Map();
      operations.set(known, byEnd);
    }
    let durations = byEnd.get(knownEnd);
    if (durations === undefined) {
      const { named, ended } = this.#words;
      const attributes = Object.freeze({ ...this.#protocol.attributes, ...named(known), ...ended(knownEnd) });
      durations = this.#series(name, attributes);
      byEnd.set(knownEnd, durations);
    }
    return durations;
  }

  /** Returns the series with these attributes; several operations may share it. */
  #series(name: MetricName, attributes: SeriesAttributes): Durations {
    const text = JSON.stringify(attributes);
    const same = this.#all.find((one) => one.name === name && JSON.stringify(one.attributes) === text);
    if (same !== undefined) return same;
    const alias = name === 'grpc.client.call.duration' ? rpcCall(attributes) : undefined;
    const durations = new Durations(name, attributes, this.#recorders, alias);
    this.#all.push(durations);
    return durations;
  }
}
