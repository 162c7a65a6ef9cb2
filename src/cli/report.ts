import type { UnbalancedClient } from '../admin/page-data.js';
import type { Endpoint } from '../endpoint/endpoint.js';
import type { AddressFamily } from '../resolver/host-families.js';
import type { ServiceFacts } from '../resolver/kubernetes/slices/service-ports.js';

/** Whether the API server allows a kind of request that evenkeel makes. */
export interface Permission {
  /** How the API server responded; `not-asked` if an earlier answer made the request pointless. */
  readonly state: 'allowed' | 'forbidden' | 'failed' | 'not-asked';
  readonly message?: string;
  /** Whether the API server answered that it does not know who asks (401). @defaultValue false */
  readonly isUnauthorized?: boolean;
}

/** The reason why the API server is not asked in a pod with `automountServiceAccountToken: false`. */
export const noToken = 'this pod has no token of its service account';

/** What the API server knows about a Service. */
export interface ApiFacts {
  /** The URL of the API server; undefined if there is none, and then `reason` says why. */
  readonly server: string | undefined;
  readonly reason?: string;
  readonly namespace: string | undefined;
  readonly service: string;
  readonly list: Permission;
  readonly watch: Permission;
  readonly getService: Permission;
  readonly slices?: {
    readonly count: number;
    readonly ports: readonly string[];
    readonly families: readonly AddressFamily[];
    readonly ready: number;
    /** How many pods are terminating but still serve; they are used when no pod is ready. */
    readonly terminating: number;
    readonly notReady: number;
    /** The topology hints by kind; only the hints of ready endpoints count. */
    readonly hints: readonly HintFacts[];
  };
  /** The Service object itself; null means that there is no such Service. */
  readonly object?: ServiceFacts | null;
}

/** For which zones or nodes the endpoints of a Service are meant, according to its topology hints. */
export interface HintFacts {
  readonly kind: 'zone' | 'node';
  /** How many ready endpoints have a hint of this kind. */
  readonly hinted: number;
  /** How many ready endpoints there are. */
  readonly of: number;
  /** The zones or nodes that the hints name. */
  readonly names: readonly string[];
}

/** What a name server answered to one DNS query. */
export interface DnsAnswerFacts {
  readonly records: number;
  /** The shortest time for which a record in the answer is valid, in seconds. */
  readonly ttl: number | undefined;
  /** The error code of `node:dns` if there was no answer. */
  readonly error?: string;
  readonly tookMs: number;
}

/** What the name servers know about a Service. */
export interface DnsFacts {
  /** The full DNS name of the Service. */
  readonly name: string;
  readonly servers: readonly string[];
  readonly a: DnsAnswerFacts;
  readonly aaaa: DnsAnswerFacts;
  /**
   * The answer to the SRV query. The queried name is `_port._tcp.name` for a named port; otherwise the Service's own name, whose answer
   * tells a cluster IP from a pod.
   */
  readonly srv: DnsAnswerFacts & { readonly name: string };
  /** What the records stand for. `external`: the Service is an alias for a name that is none of its pods. */
  readonly kind: 'pods' | 'cluster-ip' | 'external' | 'unknown' | 'none';
  /** The name for which the Service's name is an alias. */
  readonly alias?: string;
}

/** Whether DNS knows the namespace; `unknown` if DNS cannot tell. */
export interface NamespaceFacts {
  readonly name: string;
  readonly state: 'known' | 'missing' | 'unknown';
}

/** What the library found for the target. */
export interface UseFacts {
  /** How the endpoints are found, in the resolver's words: `slices`, `dns` or `name` for plain targets. */
  readonly mode: string | undefined;
  readonly reason: string | undefined;
  readonly advice: string | undefined;
  /** The endpoints that were found; undefined if none were found in time. */
  readonly endpoints: readonly Endpoint[] | undefined;
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
}

/** Whether an endpoint accepts connections. */
export interface ConnectFacts {
  readonly endpoint: string;
  readonly tookMs: number;
  readonly error?: string;
  /** What the endpoint answered to a TLS handshake; undefined unless it accepts connections and the target is an https URL. */
  readonly tls?: TlsFacts;
}

/** How an endpoint answered a TLS handshake. Its certificate is not checked. */
export interface TlsFacts {
  /** Why the endpoint does not speak TLS. */
  readonly refusal?: string;
  /** The protocol it chose, such as `h2`. */
  readonly protocol?: string;
}

/** An address that is used in place of a Service's name. */
export interface ClusterIPFacts {
  readonly address: string;
  /** The Service whose cluster IP it is, with its namespace, such as `orders.shop`. */
  readonly service: string;
}

/** A pod that speaks HTTP/2 over TLS, and what `fetch` would do with it. */
export interface Http2Facts {
  readonly endpoint: string;
  /** The version of Node.js that runs `evenkeel doctor`. */
  readonly node: string;
  /** Whether the `fetch` of this Node offers HTTP/2 by itself. */
  readonly isOffered: boolean;
}

/** What was learned from the admin page of the application's process. */
export interface ProcessFacts {
  readonly url: string;
  /** The reason why the admin page could not be read. */
  readonly error?: string;
  /** The clients that are not balanced; undefined if the process does not use `evenkeel/register`, or nothing is known. */
  readonly unbalanced?: readonly UnbalancedClient[] | undefined;
}

/** Everything that `evenkeel doctor` has found out. */
export interface Facts {
  readonly api: ApiFacts | undefined;
  readonly dns: DnsFacts | undefined;
  /** The Service's namespace; undefined if it is unknown or was not looked up. */
  readonly namespace?: NamespaceFacts | undefined;
  readonly use: UseFacts;
  /** The IP families of this host's addresses, loopback and link-local ones aside. */
  readonly hostFamilies: readonly AddressFamily[];
  readonly connections: readonly ConnectFacts[];
  /** Those of the addresses used that are cluster IPs, although the target does not name their Service. */
  readonly clusterIPs?: readonly ClusterIPFacts[];
  /** What was learned about HTTP/2; undefined unless the target is an https URL and its pods speak HTTP/2. */
  readonly http2?: Http2Facts | undefined;
  /** What was learned from the application's process; undefined if no admin page was named. */
  readonly process?: ProcessFacts | undefined;
}

export type Outcome = 'fine' | 'degraded' | 'unusable';

/** One line of the report of `evenkeel doctor`. */
export interface Line {
  readonly mark: 'ok' | 'note' | 'warn' | 'fail';
  readonly text: string;
}

/** The interpretation of everything that `evenkeel doctor` has found out. */
export interface Diagnosis {
  readonly outcome: Outcome;
  readonly summary: string;
  readonly api: readonly Line[];
  readonly dns: readonly Line[];
  readonly use: readonly Line[];
  readonly connections: readonly Line[];
  readonly process: readonly Line[];
  /** What to change, most useful first; an entry may have several lines. */
  readonly todo: readonly string[];
}

export const exitCodes: Readonly<Record<Outcome, number>> = Object.freeze({ fine: 0, degraded: 1, unusable: 2 });
