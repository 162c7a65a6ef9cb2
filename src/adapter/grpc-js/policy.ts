import { type ChannelOptions, connectivityState, experimental, Metadata, status } from '@grpc/grpc-js';
import {
  type Balancer,
  createBalancer,
  type Observer,
  type ObserverEvents,
  type PickerFactory,
  type PickSet,
  rotatingAperture,
} from '../../index.js';
import { notify, type Subchannel } from '../kit/index.js';
import { Admission, closedError, PickFailure } from './admission.js';
import { type ChannelState, type RunningPolicy, stateKey } from './channel.js';
import { BalancerPicker } from './picker.js';
import type { PodConnection } from './pod-connection.js';
import { GrpcTransport } from './transport.js';

/**
 * evenkeel's load balancing policy for grpc-js. It owns one balancer from the first call, or the first one after an idle time, until the
 * next idle time. Endpoints come from the balancer's own resolver; the list that grpc-js passes is empty.
 */
export class EvenkeelPolicy implements experimental.LoadBalancer {
  readonly #helper: experimental.ChannelControlHelper;
  #running: Running | undefined;

  constructor(helper: experimental.ChannelControlHelper) {
    this.#helper = helper;
  }

  updateAddressList(
    _endpoints: experimental.StatusOr<experimental.Endpoint[]>,
    _config: experimental.TypedLoadBalancingConfig,
    options: ChannelOptions,
  ): boolean {
    if (this.#running !== undefined) return true;
    const channel = options[stateKey] as ChannelState | undefined;
    if (channel === undefined) {
      return this.#cannot('the policy of evenkeel/grpc-js serves targets of serviceTarget() only');
    }
    const { service, closed } = channel;
    if (closed) {
      const refusal = new PickFailure(closedError(service), status.UNAVAILABLE, true);
      return this.#cannot(refusal.details, () => refusal.result());
    }
    try {
      this.#running = new Running(this.#helper, channel);
      return true;
    } catch (error) {
      channel.broke(error);
      return this.#cannot(`${service}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  // grpc-js calls these methods to make the policy connect, but the balancer does that by itself, with its own pauses.
  exitIdle(): void {}
  resetBackoff(): void {}

  destroy(): void {
    this.#running?.stop();
  }

  getTypeName(): string {
    return 'evenkeel';
  }

  #cannot(details: string, pick: experimental.Picker['pick'] = () => dropped(details)): boolean {
    this.#helper.updateState(connectivityState.TRANSIENT_FAILURE, { pick }, details);
    // True means that the channel accepts the method configuration, so that calls get this far and learn why they fail.
    return true;
  }
}

/** The pick result by which a call ends. grpc-js would try another result's call again and again, without a pause, until its deadline. */
function dropped(details: string): experimental.PickResult {
  return {
    pickResultType: experimental.PickResultType.DROP,
    subchannel: null,
    status: { code: status.UNAVAILABLE, details, metadata: new Metadata() },
    onCallStarted: null,
    onCallEnded: null,
  };
}

/** One balancer and the channel it serves, until the channel goes idle. */
class Running implements RunningPolicy {
  readonly balancer: Balancer<PodConnection>;
  readonly #helper: experimental.ChannelControlHelper;
  readonly #channel: ChannelState;
  readonly #admission: Admission;
  readonly #transport: GrpcTransport;
  readonly #picker: BalancerPicker;
  #state: connectivityState = connectivityState.CONNECTING;
  /** Whether all waiting calls are to be tried again, whatever the state of the channel. */
  #isSettled = false;
  #publishing = false;
  #stopped = false;

  constructor(helper: experimental.ChannelControlHelper, channel: ChannelState) {
    const { options, service, args } = channel;
    const { balancing } = options;
    this.#helper = helper;
    this.#channel = channel;
    const admission = new Admission(
      { ...balancing, channel, isEmpty: () => this.balancer.snapshot().state === 'empty' },
      () => this.#schedule(),
    );
    this.#admission = admission;
    this.#transport = new GrpcTransport(helper, args, options);
    try {
      this.balancer = createBalancer({
        ...balancing,
        resolver: balancing.resolver ?? service,
        picker: this.#watched(balancing.picker ?? rotatingAperture()),
        observer: this.#withAdmission(balancing.observer ?? {}),
        transport: this.#transport,
      });
    } catch (error) {
      // The first run of the policy's picker may have requested work that must not be done any longer.
      this.#stopped = true;
      throw error;
    }
    this.#picker = new BalancerPicker(this.balancer, admission, options, () => {
      this.#isSettled = true;
      this.#schedule();
    });
    helper.updateState(this.#state, this.#picker, null);
    channel.awoke(this);
  }

  channelClosed(): void {
    this.#schedule();
  }

  /** The channel goes idle or closes. The policy's connections are released before this returns. */
  stop(): void {
    this.#stopped = true;
    this.#channel.sleeps(this);
    this.#transport.release();
    // Closing the balancer does not affect running calls: they end as gRPC decides.
    void this.balancer.close({ signal: AbortSignal.abort() });
  }

  /** Wraps the picker factory: each time the balancer builds a picker, the channel's state is assessed again. */
  #watched(picker: PickerFactory): PickerFactory {
    const watched: PickerFactory = (set, previous, context) => {
      // Only this balancer has this factory, so the set's connections are pods.
      this.#admission.setChanged(set as PickSet<Subchannel<PodConnection>>);
      return picker(set, previous, context);
    };
    return Object.assign(watched, { ignoresLoad: picker.ignoresLoad === true });
  }

  #withAdmission(observer: Observer): Observer {
    const wrapped: { [Event in keyof ObserverEvents]?: (event: never) => void } = {};
    for (const event of Object.keys(observer) as (keyof ObserverEvents)[]) {
      wrapped[event] = (value: never) => notify(observer, event, value);
    }
    const also = <Event extends keyof ObserverEvents>(
      event: Event,
      listen: (value: ObserverEvents[Event]) => void,
    ): void => {
      wrapped[event] = (value: ObserverEvents[Event]) => {
        listen(value);
        notify(observer, event, value);
      };
    };
    also('resolved', ({ endpoints, reason }) => this.#admission.resolved(endpoints.length, reason));
    also('resolveFailed', ({ error, stale }) => this.#admission.resolveFailed(error, stale));
    also('resolveRecovered', () => this.#admission.resolveRecovered());
    // A failed connection may change the channel's state, because calls fail once every endpoint has failed.
    also('subchannelChanged', ({ to }) => {
      if (to === 'backoff') this.#schedule();
    });
    return wrapped as Observer;
  }

  /**
   * Schedules a report of the channel's state to grpc-js, at most once per turn of the event loop, and never while the balancer is at work.
   */
  #schedule(): void {
    if (this.#publishing || this.#stopped) return;
    this.#publishing = true;
    this.#channel.options.clock.defer(() => {
      this.#publishing = false;
      if (!this.#stopped) this.#publish();
    });
  }

  #publish(): void {
    const admission = this.#admission;
    const state = admission.assess();
    const { refusal } = admission;
    if (state === this.#state && !this.#isSettled && refusal?.final !== true) return;
    this.#state = state;
    this.#isSettled = false;
    this.#helper.updateState(state, this.#picker, refusal?.error.message ?? null);
  }
}
