import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock, Rng } from 'evenkeel';

/**
 * Starts a Kubernetes API server on a loopback address: list and watch of EndpointSlices and Services, a real API server's behavior as
 * far as clients notice it, and every way in which one is known to fail. Runs until `close`.
 */
export function createApiServer(options?: ApiServerOptions): Promise<ApiServer>;

export interface ApiServerOptions {
  /** The server's certificate; `true` creates one for 127.0.0.1 and localhost, and `ca` is then its authority. Default: plain HTTP. */
  readonly tls?: boolean | Certificate;
  /** Default: 127.0.0.1. */
  readonly host?: '127.0.0.1' | '::1';
  /** Default: any free port. */
  readonly port?: number;
  /** The bearer tokens that clients may send, and what each may do. Default: no token is needed. */
  readonly tokens?: Tokens;
  /** How many writes the server remembers; a watch from before the oldest of them gets 410. Default: 1,000. */
  readonly historyLimit?: number;
  /** How often a watch that allows bookmarks gets one. Default: 60,000. */
  readonly bookmarkIntervalMs?: number;
  /** Whether `limit` also applies to lists with `resourceVersion=0`; a real API server sends such lists whole. Default: false. */
  readonly pagesFromCache?: boolean;
  /**
   * Whether a watch may begin with the current state (`sendInitialEvents`), as in Kubernetes 1.32 and from 1.34 on; otherwise the
   * request is refused with 422. Default: true.
   */
  readonly streamingLists?: boolean;
  /** For bookmarks, timeouts and delays. */
  readonly clock?: Clock;
  /** Decides where chunks are cut and how slices are named. */
  readonly rng?: Rng;
}

export interface ApiServer {
  /** A restart keeps URL and port. */
  readonly url: string;
  readonly port: number;
  /** The certificate authority to trust, as PEM; undefined without TLS. */
  readonly ca: string | undefined;
  /** Every write to them reaches every watch. */
  readonly slices: Collection<EndpointSliceObject>;
  readonly services: Collection<ServiceObject>;
  /** Creates a Service whose slices are written from a list of pods. */
  service(namespace: string, name: string, options: ServiceOptions): ServiceController;

  /** The last 10,000 requests, oldest first. */
  readonly requests: readonly RecordedRequest[];
  /** Since the first start; those that begin with `open`: now. */
  readonly counts: {
    readonly lists: number;
    readonly watches: number;
    readonly gets: number;
    readonly openWatches: number;
    readonly connections: number;
    readonly openConnections: number;
  };
  /** The store's current version. */
  readonly revision: number;

  /** Makes the next requests of a verb fail. Faults queue up. */
  failNext(verb: Verb | 'any', fault: Fault, options?: FaultOptions): void;
  clearFaults(): void;
  /** Disturbs every open watch. Returns how many there were. */
  disturb(what: Disturbance): number;
  /** Rewrites every line of every watch from now on; undefined stops it. */
  mangle(mangle: Mangle | undefined): void;

  /** Replaces tokens and permissions. Open watches continue, as with a real API server. */
  setTokens(tokens: Tokens | undefined): void;
  /** Makes every version up to now too old to watch from. */
  compact(): void;
  /** Makes the next page of every list that is being read fail with 410. */
  expireContinueTokens(): void;
  /** Increments the version without an event, as writes to other objects do. */
  touch(): void;
  backup(): StoreBackup;
  /** The version goes back, and open watches get no event. */
  restore(backup: StoreBackup): void;
  /** While the store is not available, open watches go silent and consistent reads hang. */
  setStoreAvailable(available: boolean): void;
  /** Drops every packet, until `thaw` delivers what has accumulated. Connections can still be opened. */
  freeze(): void;
  thaw(): void;

  /** Like SIGKILL: every connection is reset, new ones are refused. */
  kill(): Promise<void>;
  /** Like SIGTERM: new connections are refused; open watches go on for `graceMs` (default: 60,000), then end. */
  terminate(graceMs?: number): Promise<void>;
  start(options?: StartOptions): Promise<void>;
  /** Kills the server, waits for `downMs`, and starts it again. */
  restart(options?: StartOptions & { readonly downMs?: number }): Promise<void>;
  /** Resolves when every socket is closed. May be called again. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface StartOptions {
  /** Whether a watch may start from versions of before the restart. Default: kept. */
  readonly history?: 'kept' | 'lost';
  /** How long the first requests get 403, as from a real API server that still loads its rules. Default: 20. */
  readonly forbiddenMs?: number;
}

/** The objects of one kind, which tests write as a controller would. The namespace defaults to `default`. */
export interface Collection<T extends KubernetesObject> {
  /** Creates or replaces an object. Returns its new version. */
  put(object: T): string;
  get(name: string, namespace?: string): T | undefined;
  /** All objects, in every namespace. */
  list(): readonly T[];
  /** Returns whether the object existed. */
  delete(name: string, namespace?: string): boolean;
}

export type ResourceName = 'endpointslices' | 'services';
export type Verb = 'list' | 'watch' | 'get';

/** Which verbs are allowed on which resources of a namespace; `'*'` means any. */
export interface Grant {
  readonly namespace: string;
  readonly verbs: readonly (Verb | '*')[];
  readonly resources: readonly (ResourceName | '*')[];
}

export type Tokens = Readonly<Record<string, 'all' | readonly Grant[]>>;

/** A request as the API server saw it. */
export interface RecordedRequest {
  /** `other` for a path that the server does not have. */
  readonly verb: Verb | 'other';
  /** Without the query. */
  readonly path: string;
  readonly resource: ResourceName | undefined;
  /** Empty = all namespaces. */
  readonly namespace: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: IncomingMessage['headers'];
  /** 0 until there is a response. */
  status: number;
}

export type Fault =
  /** Status 429 comes as plain text, any other as a Status object unless `body` is set. */
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly retryAfterSeconds?: number;
      readonly reason?: string;
      readonly body?: string;
    }
  /** The server accepts the request and never responds. */
  | { readonly kind: 'hang' }
  /** The server resets the connection (TCP RST) instead of responding. */
  | { readonly kind: 'reset' }
  /** The server sends status 200 and headers, then nothing, forever. */
  | { readonly kind: 'silent' }
  /** The server sends status 200 and ends the body without a line. */
  | { readonly kind: 'empty' }
  /** The server sends the first bytes of the correct response, then cuts the connection. For lists and gets. */
  | { readonly kind: 'truncated'; readonly bytes: number }
  /** The server sends status 200 and this text as the body. */
  | { readonly kind: 'body'; readonly body: string }
  /** The server sends one ERROR event with this Status code on a watch, and ends it. */
  | { readonly kind: 'error-event'; readonly status: number; readonly reason?: string };

export interface FaultOptions {
  /** How many of the next requests fail; may be Infinity. Default: 1. */
  readonly times?: number;
  /** Default: every request fails. */
  readonly when?: (request: RecordedRequest) => boolean;
}

/** What to do to an open watch. */
export type Disturbance =
  /** Its body ends properly. */
  | 'end'
  /** Its connection is reset (TCP RST). */
  | 'reset'
  /** It sends half a line, then its body ends properly. */
  | 'cut'
  /** It sends a line that is not JSON, and continues. */
  | 'garbage'
  /** It sends nothing more, not even bookmarks or its end; its connection stays open. */
  | 'silence'
  /** It sends a bookmark now. */
  | 'bookmark'
  /** It sends an ERROR event with this Status code, then ends. */
  | { readonly error: number }
  /** It sends these bytes unchanged. */
  | { readonly raw: string | Uint8Array };

/** The chunks to send instead of a watch's line, and what happens after them. Undefined leaves the line as it is. */
export type Mangle = (
  line: Buffer,
) => { readonly pieces: readonly Uint8Array[]; readonly after?: 'end' | 'reset' } | undefined;

/**
 * A Service and its pods, written as the endpointslice controller writes them: up to 100 endpoints per slice, slices filled where there
 * is room and never rebalanced, one slice per set of port numbers, creates before updates before deletes, and an empty slice with `null`
 * lists if there are no pods.
 */
export class ServiceController {
  readonly namespace: string;
  readonly name: string;
  constructor(store: ObjectStore, rng: Rng, namespace: string, name: string, options: ServiceOptions);
  get pods(): readonly Pod[];
  setPods(pods: readonly Pod[]): void;
  /** Adds a pod, or replaces the pod with that name. */
  putPod(pod: Pod): void;
  /** Does nothing if there is no pod with that name. */
  updatePod(name: string, change: Partial<Pod>): void;
  removePod(name: string): void;
  setPorts(ports: readonly ServicePort[]): void;
  /** Deletes the Service and its slices. */
  delete(): void;
}

export interface ServiceOptions {
  /** If there are none, endpoints are listed without a port. */
  readonly ports: readonly ServicePort[];
  /** `clusterIP: None`. */
  readonly headless?: boolean;
  readonly publishNotReadyAddresses?: boolean;
  /** Adds topology hints: each endpoint for its own zone, or also for its own node. */
  readonly trafficDistribution?: 'PreferSameZone' | 'PreferSameNode';
  /** Default: 100; at most 1,000. */
  readonly maxEndpointsPerSlice?: number;
}

export interface ServicePort {
  readonly name?: string;
  readonly port: number;
  /** The pods' port: a number, or the name of one of their ports. Default: `port`. */
  readonly targetPort?: number | string;
  /** Default: TCP. */
  readonly protocol?: string;
  /** Such as `kubernetes.io/h2c`. */
  readonly appProtocol?: string;
}

export interface Pod {
  /** Unique in the Service. */
  readonly name: string;
  /** IPv4 and IPv6 pods go into slices of their own. */
  readonly address: string;
  /** The pod's IP address of the other family: the pod is then in a slice of each family, with one uid. */
  readonly otherAddress?: string;
  /** Default: derived from the name, so that a pod with the same name counts as the same pod. */
  readonly uid?: string;
  /** Whether the pod's readiness probe passes. Default: true. */
  readonly ready?: boolean;
  readonly terminating?: boolean;
  readonly zone?: string;
  readonly nodeName?: string;
  /** Ports by name, for Services whose `targetPort` is a name; a port here also overrides the number of the Service port with its name. */
  readonly ports?: Readonly<Record<string, number>>;
}

/** What every kind of object has in common; other fields are kept as they are. */
export interface KubernetesObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly uid?: string;
    /** Set by the store on every write; a writer's value is ignored. */
    readonly resourceVersion?: string;
    readonly [field: string]: unknown;
  };
  readonly [field: string]: unknown;
}

/** A `discovery.k8s.io/v1` EndpointSlice. The controller writes `null` lists for a Service without pods. */
export interface EndpointSliceObject extends KubernetesObject {
  readonly addressType?: string;
  readonly endpoints?: readonly SliceEndpoint[] | null;
  readonly ports?: readonly SlicePort[] | null;
}

export interface SliceEndpoint {
  readonly addresses: readonly string[];
  readonly conditions?: { readonly ready?: boolean; readonly serving?: boolean; readonly terminating?: boolean };
  readonly hostname?: string;
  readonly nodeName?: string;
  readonly zone?: string;
  readonly targetRef?: {
    readonly kind?: string;
    readonly name?: string;
    readonly namespace?: string;
    readonly uid?: string;
  };
  readonly hints?: {
    readonly forZones?: readonly { readonly name: string }[];
    readonly forNodes?: readonly { readonly name: string }[];
  };
  readonly [field: string]: unknown;
}

export interface SlicePort {
  readonly name?: string;
  readonly port?: number;
  readonly protocol?: string;
  readonly appProtocol?: string;
}

/** A `v1` Service, as far as a client reads it. */
export interface ServiceObject extends KubernetesObject {
  readonly spec: {
    readonly ports?: readonly {
      readonly name?: string;
      readonly port: number;
      readonly targetPort?: number | string;
      readonly protocol?: string;
    }[];
    readonly clusterIP?: string;
    readonly [field: string]: unknown;
  };
}

/** The versioned store behind the API server, for tests that need no sockets. */
export class ObjectStore {
  /** @param historyLimit How many writes the store remembers. */
  constructor(historyLimit: number);
  get revision(): number;
  /** The oldest version from which the store still knows all later writes. */
  get compacted(): number;
  get(resource: ResourceName, namespace: string, name: string): StoredObject | undefined;
  list(resource: ResourceName, namespace: string): StoredObject[];
  listAt(resource: ResourceName, namespace: string, revision: number): StoredObject[] | undefined;
  put(resource: ResourceName, object: KubernetesObject): StoredObject;
  delete(resource: ResourceName, namespace: string, name: string): boolean;
  touch(): void;
  compact(): void;
  eventsAfter(resource: ResourceName, revision: number): StoreEvent[] | undefined;
  backup(): StoreBackup;
  restore(backup: StoreBackup): void;
  subscribe(listener: (event: StoreEvent) => void): () => void;
}

/** One version of one object. */
export interface StoredObject {
  readonly resource: ResourceName;
  readonly namespace: string;
  readonly name: string;
  readonly revision: number;
  readonly object: KubernetesObject;
  readonly labels: Readonly<Record<string, string>> | undefined;
  /** As an item of a list, without kind and apiVersion. */
  readonly itemText: string;
  /** In a watch event, with kind and apiVersion. */
  readonly eventText: string;
  /** The object with a later version and nothing else changed. */
  at(revision: number): StoredObject;
}

export interface StoreEvent {
  readonly revision: number;
  readonly resource: ResourceName;
  /** Undefined if the write created the object. */
  readonly before: StoredObject | undefined;
  /** Undefined if the write deleted the object. */
  readonly after: StoredObject | undefined;
}

export interface StoreBackup {
  readonly revision: number;
  /** By kind, namespace and name. */
  readonly objects: ReadonlyMap<string, StoredObject>;
}

export interface ListQuery {
  readonly resource: ResourceName;
  readonly namespace: string;
  readonly matches: (labels: Readonly<Record<string, string>> | undefined) => boolean;
  /** Whether the request has a selector, so that the response has no count of remaining items. */
  readonly selective: boolean;
  readonly resourceVersion: string;
  readonly resourceVersionMatch: string;
  /** 0 = no limit. */
  readonly limit: number;
  readonly continueToken: string;
  /** Continue tokens from an earlier epoch have expired. */
  readonly epoch: number;
  readonly pagesFromCache: boolean;
}

/** A Status, with which the API server reports a failure. */
export interface StatusObject {
  readonly code: number;
  readonly message: string;
  readonly reason?: string;
}

/** Answers a list request as a real API server does for each form of `resourceVersion`, `limit` and `continue`. */
export function answerList(
  store: ObjectStore,
  query: ListQuery,
):
  | { readonly kind: 'page'; readonly body: string }
  | { readonly kind: 'failure'; readonly status: StatusObject }
  /** The version does not exist yet: the answer is 504 with this Status unless it appears within 3 s. */
  | { readonly kind: 'early'; readonly wanted: number; readonly status: StatusObject };
export function eventLine(type: 'ADDED' | 'MODIFIED' | 'DELETED', objectText: string): string;
export function bookmarkLine(resource: ResourceName, version: number, initialEventsEnd?: boolean): string;

/** Cuts a connection with RST. */
export function resetSocket(socket: Socket): void;

/** A certificate and its private key, both PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** Creates an ECDSA P-256 certificate, valid from 2020 to 2099, without files or an external tool. */
export function createCertificate(options?: CertificateOptions): Certificate & { readonly commonName: string };

export interface CertificateOptions {
  readonly commonName?: string;
  /** Default: localhost and 127.0.0.1. */
  readonly hosts?: readonly string[];
  /** The certificate whose key signs the new one. Default: its own key signs it, and it may then sign others. */
  readonly issuer?: Certificate & { readonly commonName: string };
}

/**
 * Starts a DNS server over UDP and TCP on one port: plain records, Services as CoreDNS serves them, and faults on demand. Point a client
 * at `address`, for example with `Resolver.setServers([server.address])`.
 */
export function createDnsServer(options?: DnsServerOptions): Promise<DnsServer>;

export interface DnsServerOptions {
  /** Default: 127.0.0.1. */
  readonly host?: string;
  /** Default: any free port. */
  readonly port?: number;
  /** Default: cluster.local. */
  readonly clusterDomain?: string;
  /** The TTL of the records of Kubernetes Services, in seconds. Default: 5. */
  readonly ttl?: number;
  /** Whether records come in random order, as CoreDNS's `loadbalance` does. Default: true. */
  readonly shuffle?: boolean;
  /** Whether the server answers like a cache: an answer is kept for its TTL, which counts down. Default: false. */
  readonly cache?: boolean;
  readonly clock?: Clock;
  readonly rng?: Rng;
}

export interface DnsServer {
  /** Plain records, which are asked after the Kubernetes Services. */
  readonly zone: {
    /** Sets all records of a name; `{}` is a name that exists without records (NODATA). */
    set(name: string, records: DnsNameRecords): void;
    /** Forgets a name, which is NXDOMAIN from now on. */
    delete(name: string): void;
  };
  readonly kubernetes: KubernetesZone;
  readonly port: number;
  /** `ip:port`, as `dns.Resolver.setServers` takes it. */
  readonly address: string;
  /** The last 10,000 queries, oldest first. */
  readonly queries: readonly DnsQueryEntry[];
  /** How many queries came for a name, including a client's repeats. */
  count(name: string, type?: string): number;
  /** The most queries for a name that were unanswered at one time. A repeat does not count, nor what the fault `silent` drops. */
  maxConcurrent(name: string): number;
  resetCounters(): void;
  /** Makes queries fail from now on; the last matching fault wins. The returned function removes the fault. */
  fault(fault: DnsFault, scope?: DnsFaultScope): () => void;
  clearFaults(): void;
  /** Refusing TCP is like a firewall that lets only DNS over UDP through. */
  acceptTcp(accept: boolean): Promise<void>;
  /** After `stop`: opens both sockets again on the same port. */
  listen(): Promise<void>;
  /** Closes both sockets, as if the process had died: clients are refused until `listen`. */
  stop(): Promise<void>;
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export type DnsFault =
  /** `NODATA`: the name has no records of the queried type. */
  | {
      readonly kind: 'rcode';
      readonly rcode: 'FORMERR' | 'SERVFAIL' | 'NXDOMAIN' | 'NOTIMP' | 'REFUSED' | 'NODATA';
    }
  /** The server accepts the query and never answers. */
  | { readonly kind: 'silent' }
  | { readonly kind: 'slow'; readonly delayMs: number }
  /** The server answers with the right id, followed by bytes that are not a DNS message. */
  | { readonly kind: 'garbage' }
  /** The server sets TC on every UDP answer, no matter how small the answer is. */
  | { readonly kind: 'truncate' };

/** Which queries a fault affects. */
export interface DnsFaultScope {
  readonly name?: string;
  readonly type?: string;
  /** Default: Infinity. */
  readonly times?: number;
}

export interface DnsQueryEntry {
  /** In lower case. */
  readonly name: string;
  readonly type: string;
  readonly protocol: 'udp' | 'tcp';
}

/** Answers queries like CoreDNS's `kubernetes` plugin. */
export interface KubernetesZone {
  /** How long answers are valid, in seconds, including the answer "no such name". */
  ttl: number;
  /** Existing namespaces, in addition to those of the zone's Services. */
  readonly namespaces: Set<string>;
  /** Adds or replaces a Service. */
  set(service: DnsService): void;
  /** Removes a Service; its name is NXDOMAIN from now on. */
  delete(namespace: string, name: string): void;
  nameOf(service: Pick<DnsService, 'namespace' | 'name'>): string;
}

export interface DnsService {
  readonly namespace: string;
  readonly name: string;
  /** The pods' ports for a headless Service, otherwise the Service's ports. */
  readonly ports?: readonly { readonly name?: string; readonly port: number; readonly protocol?: 'TCP' | 'UDP' }[];
  /** The Service's own addresses, one per family; absent for a headless Service. */
  readonly clusterIPs?: readonly string[];
  /** The name for which an ExternalName Service is an alias; its only record is then a CNAME. */
  readonly externalName?: string;
  readonly pods?: readonly DnsPod[];
  readonly publishNotReadyAddresses?: boolean;
}

export interface DnsPod {
  /** One, or one per family. */
  readonly address: string | readonly string[];
  /** A terminating pod is not ready, even while it still serves. Default: true. */
  readonly ready?: boolean;
  /** As a StatefulSet sets it; CoreDNS names a pod without one after its address (`10-0-0-1`). */
  readonly hostname?: string;
}

export interface DnsNameRecords {
  readonly a?: readonly string[];
  readonly aaaa?: readonly string[];
  /** The priority is 0 and the weight 100 unless given. */
  readonly srv?: readonly {
    readonly target: string;
    readonly port: number;
    readonly priority?: number;
    readonly weight?: number;
  }[];
  /** The name for which this name is an alias; excludes all other records. */
  readonly cname?: string;
  readonly ptr?: string;
  /** In seconds. Default: 5. */
  readonly ttl?: number;
}
