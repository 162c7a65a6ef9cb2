import type { Endpoint } from '../../endpoint/endpoint.js';
import { ResolveError } from '../../errors.js';
import { hash32 } from '../../runtime/hash.js';
import type { ServiceFacts } from './slices/service-ports.js';

/**
 * What a Service says about which of its endpoints a client may call, as kube-proxy follows it: `internalTrafficPolicy: Local` and
 * `sessionAffinity: ClientIP`. Neither means anything for a headless Service. (`trafficDistribution` is in the slices, as hints.)
 */
export class ServiceRules {
  readonly #subject: string;
  readonly #nodeName: string;
  readonly #client: string;
  /** The key of the endpoint that this client stays with. */
  #kept: string | undefined;

  /** @param client What this client shares with the other processes of its pod, and with no other pod: its host name. */
  constructor(subject: string, nodeName: string | undefined, client: string) {
    this.#subject = subject;
    this.#nodeName = nodeName ?? '';
    this.#client = client;
  }

  /** The error that a rule cannot be followed here; undefined if all can. */
  failure(facts: ServiceFacts | undefined): ResolveError | undefined {
    if (facts === undefined || !isLocal(facts) || this.#nodeName !== '') return undefined;
    const message =
      `Service ${this.#subject} has internalTrafficPolicy: Local, and the node of this process is unknown: ` +
      'set NODE_NAME (fieldRef: spec.nodeName)';
    return new ResolveError(message, { permanent: true });
  }

  /** The endpoints that this client may call. They keep their conditions: which of them are usable is decided later, among these alone. */
  apply(facts: ServiceFacts | undefined, endpoints: readonly Endpoint[]): readonly Endpoint[] {
    if (facts === undefined || facts.headless) return endpoints;
    const own = isLocal(facts) ? endpoints.filter(({ nodeName }) => nodeName === this.#nodeName) : endpoints;
    return facts.sessionAffinity === 'ClientIP' ? this.#one(own) : own;
  }

  /** The endpoint that this client stays with, as long as it is usable; then the one that scores highest with the client's name. */
  #one(endpoints: readonly Endpoint[]): readonly Endpoint[] {
    const ready = endpoints.filter(({ conditions }) => conditions.ready);
    const serving = endpoints.filter(({ conditions }) => conditions.serving && conditions.terminating);
    const usable = ready.length > 0 ? ready : serving;
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
