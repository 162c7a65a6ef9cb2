import type { Endpoint } from '../endpoint/endpoint.js';
import type { ServiceFacts } from '../resolver/kubernetes/service-ports.js';

/** Whether something could be asked, and what the answer was. */
export interface Verdict {
  /** `not-asked`: it made no sense after what went before. */
  readonly state: 'allowed' | 'forbidden' | 'failed' | 'not-asked';
  readonly message?: string;
}

/** What the API server says. */
export interface ApiFacts {
  /** Undefined where there is none to ask; `reason` says why. */
  readonly server: string | undefined;
  readonly reason?: string;
  readonly namespace: string | undefined;
  readonly service: string;
  readonly list: Verdict;
  readonly watch: Verdict;
  readonly getService: Verdict;
  readonly slices?: {
    readonly count: number;
    readonly ports: readonly string[];
    readonly families: readonly string[];
    readonly ready: number;
    /** Serving until they end: used when no pod is ready. */
    readonly terminating: number;
    readonly notReady: number;
    /** Topology hints, by kind; those of ready endpoints, as only they count (H1). */
    readonly hints: readonly HintFacts[];
  };
  /** The Service itself; null = there is none of that name. */
  readonly object?: ServiceFacts | null;
}

/** Who is meant to use the endpoints. */
export interface HintFacts {
  readonly kind: 'zone' | 'node';
  /** How many ready endpoints carry one. */
  readonly hinted: number;
  /** How many ready endpoints there are. */
  readonly of: number;
  /** The zones or nodes named. */
  readonly names: readonly string[];
}

/** The answer to one question. */
export interface DnsAnswerFacts {
  readonly records: number;
  /** Shortest, in seconds. */
  readonly ttl: number | undefined;
  /** A code of node:dns where there was no answer. */
  readonly error?: string;
  readonly tookMs: number;
}

/** What the name servers say. */
export interface DnsFacts {
  /** Absolute. */
  readonly name: string;
  readonly servers: readonly string[];
  readonly a: DnsAnswerFacts;
  readonly aaaa: DnsAnswerFacts;
  /** For a port by name: `_port._tcp.name`; else the name itself, which tells a cluster IP from a pod. */
  readonly srv: DnsAnswerFacts & { readonly name: string };
  /** `external`: the name of a Service, and another name for something that is none of its pods. */
  readonly kind: 'pods' | 'cluster-ip' | 'external' | 'unknown' | 'none';
  /** What the name of a Service is another name for. */
  readonly alias?: string;
}

/** Whether DNS knows the namespace; `unknown` where it does not tell. */
export interface NamespaceFacts {
  readonly name: string;
  readonly state: 'known' | 'missing' | 'unknown';
}

/** What the library itself arrives at. */
export interface UseFacts {
  /** The resolver's own words: `slices`, `dns` or `name` for plain targets. */
  readonly mode: string | undefined;
  readonly reason: string | undefined;
  readonly advice: string | undefined;
  /** Undefined when it found nothing in time. */
  readonly endpoints: readonly Endpoint[] | undefined;
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/** Whether something listens. */
export interface ConnectFacts {
  readonly endpoint: string;
  readonly tookMs: number;
  readonly error?: string;
}

/** Everything that was found. */
export interface Facts {
  readonly api: ApiFacts | undefined;
  readonly dns: DnsFacts | undefined;
  /** That of the Service; undefined where nothing names one. */
  readonly namespace?: NamespaceFacts | undefined;
  readonly use: UseFacts;
  readonly connections: readonly ConnectFacts[];
}

export type Outcome = 'fine' | 'degraded' | 'unusable';

/** One line of the report. */
export interface Line {
  readonly mark: 'ok' | 'note' | 'warn' | 'fail';
  readonly text: string;
}

/** What it means. */
export interface Diagnosis {
  readonly outcome: Outcome;
  readonly summary: string;
  readonly api: readonly Line[];
  readonly dns: readonly Line[];
  readonly use: readonly Line[];
  readonly connections: readonly Line[];
  /** What to change, most useful first; may have several lines. */
  readonly todo: readonly string[];
}

export const exitCodes: Readonly<Record<Outcome, number>> = Object.freeze({ fine: 0, degraded: 1, unusable: 2 });
