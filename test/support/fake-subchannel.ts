import { connectivityState, type experimental } from '@grpc/grpc-js';

type Listener = experimental.ConnectivityStateListener;

/** How connecting to an address ends. */
export type DialBehaviour = 'accept' | 'refuse' | 'hang';

/** A grpc-js subchannel without sockets, as far as our code uses one. */
export class FakeSubchannel {
  readonly address: string;
  readonly args: Readonly<Record<string, unknown>>;
  /** References held by users; grpc-js's pool holds one more, not counted here. */
  refs = 0;
  dials = 0;
  backoffResets = 0;
  state: connectivityState = connectivityState.IDLE;
  readonly #behaviour: () => DialBehaviour;
  readonly #listeners = new Set<Listener>();

  constructor(address: string, args: Readonly<Record<string, unknown>>, behaviour: () => DialBehaviour) {
    this.address = address;
    this.args = args;
    this.#behaviour = behaviour;
  }

  get listeners(): number {
    return this.#listeners.size;
  }

  /** Changes the state and notifies listeners, like the real one. */
  become(state: connectivityState, error?: string): void {
    const previous = this.state;
    this.state = state;
    for (const listener of [...this.#listeners]) listener(this as never, previous, state, 0, error);
  }

  ref(): void {
    this.refs++;
  }

  unref(): void {
    this.refs--;
  }

  getConnectivityState(): connectivityState {
    return this.state;
  }

  addConnectivityStateListener(listener: Listener): void {
    this.#listeners.add(listener);
  }

  removeConnectivityStateListener(listener: Listener): void {
    this.#listeners.delete(listener);
  }

  startConnecting(): void {
    process.nextTick(() => {
      if (this.state === connectivityState.IDLE) this.#dial();
    });
  }

  resetBackoff(): void {
    this.backoffResets++;
    process.nextTick(() => {
      if (this.state === connectivityState.TRANSIENT_FAILURE) this.#dial();
    });
  }

  getRealSubchannel(): this {
    return this;
  }

  getChannelzRef(): object {
    return this;
  }

  #dial(): void {
    this.dials++;
    this.become(connectivityState.CONNECTING);
    setImmediate(() => {
      if (this.state !== connectivityState.CONNECTING) return;
      const behaviour = this.#behaviour();
      if (behaviour === 'accept') this.become(connectivityState.READY);
      else if (behaviour === 'refuse') this.become(connectivityState.TRANSIENT_FAILURE, 'connect ECONNREFUSED');
    });
  }
}

/** A channel's helper over fake subchannels, shared by address and arguments as in grpc-js. */
export class FakeHelper {
  readonly behaviour: Map<string, DialBehaviour> = new Map();
  readonly subchannels: FakeSubchannel[] = [];
  /** The subchannels of a channel. */
  readonly listed: object[] = [];

  /** Subchannels with a reference. */
  held(): FakeSubchannel[] {
    return this.subchannels.filter(({ refs }) => refs > 0);
  }

  get helper(): experimental.ChannelControlHelper {
    return {
      createSubchannel: (address: { host: string; port: number }, args: Record<string, unknown>) => {
        const key = `${address.host}:${address.port}`;
        const same = (other: FakeSubchannel): boolean =>
          other.address === key && JSON.stringify(other.args) === JSON.stringify(args);
        let subchannel = this.subchannels.find(same);
        if (subchannel === undefined) {
          subchannel = new FakeSubchannel(key, args, () => this.behaviour.get(key) ?? 'accept');
          this.subchannels.push(subchannel);
        }
        return subchannel;
      },
      updateState: () => {},
      requestReresolution: () => {},
      addChannelzChild: (child: object) => this.listed.push(child),
      removeChannelzChild: (child: object) => this.listed.splice(this.listed.indexOf(child), 1),
    } as unknown as experimental.ChannelControlHelper;
  }
}
