import type { Dispatcher, Pool } from 'undici';
import { type Balancer, checkKeys, EvenkeelError, poolDefaults } from '../../index.js';
import { pickNames } from '../http/target.js';
import { checkOtherwise, Elsewhere, refuse } from './elsewhere.js';
import { bindMethods, EndingDispatcher } from './ending-dispatcher.js';
import {
  type ResolvedServiceOptions,
  resolveServiceOptions,
  type ServiceAgentOptions,
  serviceInterceptorOptionNames,
} from './service-options.js';
import { type ServiceAgentSnapshot, ServiceRouter } from './service-router.js';

/** An undici Dispatcher for a whole app: requests to Services are balanced, all others are left alone. */
export interface ServiceAgent extends Dispatcher, AsyncDisposable {
  /** The balancers of the Services in use, by the origin each was first called by. */
  readonly balancers: ReadonlyMap<string, Balancer<Pool>>;
  /** What is balanced, what is not, and why. */
  snapshot(): ServiceAgentSnapshot;
}

/**
 * Makes a dispatcher for a whole app. A host that is a Kubernetes Service gets a balanced dispatcher of its own when it
 * is first used; requests for every other host go to a plain Agent. Which hosts are Services DNS tells, once per host,
 * or the option `services`. Redirects are routed like any request. Should be closed; an idle one lets the process exit.
 *
 * @throws EVENKEEL_OPTION for an option that does not fit.
 * @example
 * setGlobalDispatcher(createServiceAgent());
 * await fetch('http://orders.shop:8080/v1/orders/42'); // one of the pods
 * await fetch('https://example.com/'); // as ever
 */
export function createServiceAgent(options: ServiceAgentOptions = {}): ServiceAgent {
  checkKeys('options', options, [...serviceInterceptorOptionNames, 'otherwise']);
  const { otherwise } = options;
  checkOtherwise(otherwise);
  return new RoutingAgent(resolveServiceOptions(pickNames(options, serviceInterceptorOptionNames)), otherwise);
}

const forwardedEvents = ['connect', 'disconnect', 'connectionError', 'drain'] as const;

class RoutingAgent extends EndingDispatcher implements ServiceAgent {
  readonly #router: ServiceRouter;
  readonly #elsewhere: Elsewhere;
  readonly #onward: Elsewhere['dispatch'];

  constructor(options: ResolvedServiceOptions, otherwise: Dispatcher | undefined) {
    super();
    bindMethods(this, ['snapshot']);
    this.#elsewhere = new Elsewhere({
      otherwise,
      clock: options.clock,
      drainTimeoutMs: poolDefaults.drainTimeoutMs,
      opened: (agent) => this.forward(agent, forwardedEvents),
    });
    this.#onward = (own, handler) => this.#elsewhere.dispatch(own, handler);
    this.#router = new ServiceRouter(options, {
      opened: (dispatcher) => this.forward(dispatcher, forwardedEvents),
      drained: (origin) => void this.emit('drain', origin),
    });
  }

  get balancers(): ReadonlyMap<string, Balancer<Pool>> {
    return this.#router.balancers;
  }

  snapshot(): ServiceAgentSnapshot {
    return this.#router.snapshot();
  }

  /** False when the request waits for its pod, or to hear whether its host is a Service; `drain` follows. */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (!this.isEnding) return this.#router.dispatch(options, handler, this.#onward);
    return refuse(handler, new EvenkeelError('EVENKEEL_CLOSED', 'the agent is closed'));
  }

  protected override async finish(): Promise<void> {
    const released = this.#router.released();
    // Those that are held go on to either.
    if (released !== undefined) await released;
    await Promise.all([this.#router.close(), this.#elsewhere.close()]);
  }

  protected override async cut(error: Error | null): Promise<void> {
    // First, so that requests the router lets go of are refused and not sent.
    this.#elsewhere.destroy(error);
    await Promise.all([this.#router.destroy(error), this.#elsewhere.close()]);
  }
}
