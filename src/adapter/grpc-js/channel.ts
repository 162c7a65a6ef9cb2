import { Channel, ChannelCredentials, type ClientOptions, type Deadline } from '@grpc/grpc-js';
import { EvenkeelError, type Priority } from '../../index.js';
import { dateIn, inheritedPriority, isTraced, remainingOf } from '../kit/index.js';
import { type GrpcOptions, isGrpcOption, resolveGrpcOptions } from './options.js';
import { registeredName } from './register.js';
import { HiddenOptions } from './resolver.js';
import { checkService } from './target.js';
import { type TracedChannel, tracedChannel, traceFromStart } from './traced-call.js';

/**
 * The target string of a Service, for the address of any client or channel of grpc-js.
 *
 * @param service `name.namespace:port`, or another target string of evenkeel. It stays `:authority` and the name TLS checks,
 * regardless of the pod.
 * @throws EVENKEEL_OPTION for anything that cannot name a Service.
 * @example new OrdersClient(target('orders.shop:50051'), credentials.createInsecure(), channelOptions());
 */
export function target(service: string): string {
  return `${registeredName()}:${checkService(service)}`;
}

/**
 * The options of a client or channel for such a target: how to choose among pods, together with any of grpc-js's own
 * (`grpc.…`). One result may serve several channels; each has its own balancer.
 *
 * @throws EVENKEEL_OPTION for invalid options, and when a client is created from a copy of grpc-js other than the one evenkeel
 * uses.
 * @example const options = channelOptions({ picker: leastLoaded(), 'grpc.keepalive_time_ms': 30_000 });
 */
export function channelOptions(options: GrpcOptions = {}): ClientOptions {
  registeredName();
  const resolved = resolveGrpcOptions(options);
  const own = Object.fromEntries(Object.entries(options).filter(([name]) => isGrpcOption(name)));
  return {
    // With a proxy in the environment grpc-js would replace the target by the proxy; pods are reached directly.
    'grpc.enable_http_proxy': 0,
    ...own,
    [HiddenOptions.key]: new HiddenOptions(resolved),
    channelFactoryOverride: (address, credentials, given) => {
      if (!(credentials instanceof ChannelCredentials)) throw twoCopies();
      const hidden = new HiddenOptions(resolved);
      return new BalancedChannel(address, credentials, { ...given, [HiddenOptions.key]: hidden }, hidden);
    },
  };
}

/** A channel that remembers that it was closed: grpc-js forgets that as soon as the channel is waited for again. */
class BalancedChannel extends Channel {
  readonly #hidden: HiddenOptions;

  readonly #traced: TracedChannel;

  constructor(address: string, credentials: ChannelCredentials, options: ClientOptions, hidden: HiddenOptions) {
    super(address, credentials, options);
    this.#hidden = hidden;
    this.#traced = tracedChannel(address.slice(address.indexOf(':') + 1), hidden.options);
    hidden.channel = this;
  }

  /** Calls made while a request is served get no more time than is left of it. grpc-js says so to the server. */
  override createCall(
    ...[method, deadline, host, parentCall, propagateFlags]: Parameters<Channel['createCall']>
  ): ReturnType<Channel['createCall']> {
    const { propagation } = this.#hidden.options;
    const served = propagation.context?.current() ?? undefined;
    const remainingMs = served && remainingOf(served);
    const own = remainingMs === undefined ? deadline : sooner(deadline, dateIn(remainingMs));
    const call = super.createCall(method, own, host, parentCall, propagateFlags);
    const priority = served && inheritedPriority(served);
    if (priority !== undefined && propagation.priorityHeader !== undefined) {
      sayPriority(call, propagation.priorityHeader, priority);
    }
    if (isTraced()) traceFromStart(call, this.#traced, method);
    return call;
  }

  override close(): void {
    this.#hidden.closed = true;
    super.close();
  }
}

/** Has a call say a priority, unless its caller does. Where it is placed, nothing is left of the request that is being served. */
function sayPriority(call: ReturnType<Channel['createCall']>, name: string, priority: Priority): void {
  const { start } = call;
  call.start = (metadata, listener) => {
    const own = metadata.clone();
    if (own.get(name).length === 0) own.set(name, priority);
    start.call(call, own, listener);
  };
}

/** The sooner of two dates. */
function sooner(deadline: Deadline, date: number): Deadline {
  return Number(deadline) <= date ? deadline : date;
}

function twoCopies(): EvenkeelError {
  return new EvenkeelError(
    'EVENKEEL_OPTION',
    'this client comes from another copy of @grpc/grpc-js than the one evenkeel/grpc-js imports, where its target scheme ' +
      'is registered; "npm ls @grpc/grpc-js" shows both: make them one with "npm dedupe", or with an override of one version',
  );
}
