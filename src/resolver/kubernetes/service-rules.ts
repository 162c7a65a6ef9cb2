import type { Endpoint } from '../../endpoint/endpoint.js';
import { hintedFor } from '../../endpoint/hinted.js';
import { hash32 } from '../../runtime/hash.js';
import { LeftToDns } from '../wrong-target.js';
import type { ServiceFacts } from './slices/service-ports.js';

/** Where a client runs, and what it is called. */
export interface RulesClient {
  readonly zone: string | undefined;
  readonly nodeName: string | undefined;
  /** What the client shares with the other processes of its pod, and with no other pod: its host name. */
  readonly name: string;
}

/**
 * What a Service says about which of its endpoints a client may call, as kube-proxy follows it: `internalTrafficPolicy: Local` and
 * `sessionAffinity: ClientIP`. Neither means anything for a headless Service. `trafficDistribution` is in the slices, as hints, which a
 * stage follows; affinity chooses among those that it leaves.
 */
export class ServiceRules {
  readonly #subject: string;
  readonly #zone: string;
  readonly #nodeName: string;
  readonly #client: string;
  /** The key of the endpoint that this client stays with. */
  #kept: string | undefined;

  constructor(subject: string, { zone = '', nodeName = '', name }: RulesClient) {
    this.#subject = subject;
    this.#zone = zone;
    this.#nodeName = nodeName;
    this.#client = name;
  }

  /** The error that the slices do not say who may be called here; undefined if they do. */
  failure(facts: ServiceFacts | undefined): LeftToDns | undefined {
    if (facts?.type === 'ExternalName') {
      // No controller deletes the slices of a Service that became one.
      const message = `Service ${this.#subject} has the type ExternalName: its name leads elsewhere, and its EndpointSlices are old`;
      return new LeftToDns(message);
    }
    if (facts === undefined || !isLocal(facts) || this.#nodeName !== '') return undefined;
    const message =
      `Service ${this.#subject} has internalTrafficPolicy: Local, and the node of this process is unknown: ` +
      'set NODE_NAME (fieldRef: spec.nodeName)';
    return new LeftToDns(message);
  }

  /** The endpoints that this client may call. They keep their conditions: which of them are usable is decided later, among these alone. */
  apply(facts: ServiceFacts | undefined, endpoints: readonly Endpoint[]): readonly Endpoint[] {
    if (facts === undefined || facts.headless) return endpoints;
    const own = isLocal(facts) ? this.#local(endpoints) : endpoints;
    return facts.sessionAffinity === 'ClientIP' ? this.#one(own) : own;
  }

  /** The endpoints of this node, without hints: those say who of all clients should call them, and here only this node's may. */
  #local(endpoints: readonly Endpoint[]): readonly Endpoint[] {
    const own = endpoints.filter(({ nodeName }) => nodeName === this.#nodeName);
    return own.map((endpoint) => Object.freeze({ ...endpoint, hintZones: [], hintNodes: [] }));
  }

  /** The endpoint that this client stays with, as long as it is usable; then the one that scores highest with the client's name. */
  #one(endpoints: readonly Endpoint[]): readonly Endpoint[] {
    const ready = endpoints.filter(({ conditions }) => conditions.ready);
    const serving = endpoints.filter(({ conditions }) => conditions.serving && conditions.terminating);
    const isHinted = hintedFor(ready, this.#zone, this.#nodeName) ?? (() => true);
    const usable = ready.length > 0 ? ready.filter(isHinted) : serving;
    if (usable.length === 0) return endpoints;
    let best = usable.find(({ key }) => key === this.#kept);
    if (best === undefined) {
      best = usable[0] as Endpoint;
      for (const endpoint of usable) if (this.#score(endpoint) > this.#score(best)) best = endpoint;
    }
    this.#kept = best.key;
    return [best];
  }

  #score({ key }: Endpoint): number {
    return hash32(`${this.#client} ${key}`);
  }
}

function isLocal({ headless, internalTrafficPolicy }: ServiceFacts): boolean {
  return !headless && internalTrafficPolicy === 'Local';
}
