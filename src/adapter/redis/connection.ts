import {
  type Clock,
  type Connection,
  type Endpoint,
  EvenkeelError,
  endpointAddress,
  type Rng,
  type Timer,
} from '../../index.js';
import { asError, jittered, OpenConnection } from '../kit/index.js';

/** A read, as its library has it: one command, or a pipeline. */
export interface Read {
  /** Sends a copy to a replica. Rejects if there is no answer that is the caller's. */
  send(client: unknown): Promise<unknown>;
  /** The copy was answered, with an error of the application's if `error` says so. */
  answered(answer: unknown): void;
  failed(error: Error): void;
  /** Sends it to the primary, which then answers it. */
  sendToPrimary(): void;
}

/** The client of one replica, of the application's own library. It never connects again, and keeps nothing for later. */
export interface ReplicaClient {
  /** What reads are sent on. */
  readonly client: unknown;
  /** Resolves when it is ready for commands. */
  connect(): Promise<void>;
  /** The answer to INFO replication. */
  info(): Promise<string>;
  /** Whether its socket keeps the process alive. */
  busy(isBusy: boolean): void;
  /** Closes the connection, on which nothing runs. */
  finish(): void;
  /** Cuts the connection. */
  cut(): void;
}

/** How a library's clients are made. `ended` is called once, when the connection is closed. */
export type OpenClient = (endpoint: Endpoint, ended: (error: Error | undefined) => void) => ReplicaClient;

/** What a `Replica` needs. */
export interface ReplicaParts {
  readonly endpoint: Endpoint;
  readonly open: OpenClient;
  readonly probeIntervalMs: number;
  readonly clock: Clock;
  readonly rng: Rng;
  /** What it says about itself has changed. */
  readonly changed: () => void;
  readonly warned: (error: Error) => void;
}

/** A replica that has not answered for this long gets no read until it does, in ms: it does one thing at a time. */
const SILENT_MS = 1_000;
/** Its connection is cut after this, in ms, so that what was sent on it goes to another server. */
const DEAD_MS = 10_000;
const JITTER_RATIO = 0.2;

/** One replica: its client, and what it says about itself. */
export class Replica implements Connection<Replica> {
  readonly handle: Replica = this;
  readonly capacity: number = Number.POSITIVE_INFINITY;
  readonly endpoint: Endpoint;
  /** Why it may not be read from; undefined if it may. */
  objection: string | undefined = 'it has not said yet what it is';
  /** What the observer was told. */
  told: string | undefined;
  readonly #parts: ReplicaParts;
  readonly #client: ReplicaClient;
  readonly #open: OpenConnection<Replica>;
  #asking: Promise<void> | undefined;
  #timer: Timer | undefined;
  #isOver = false;

  constructor(parts: ReplicaParts) {
    this.#parts = parts;
    this.endpoint = parts.endpoint;
    this.#client = parts.open(parts.endpoint, (error) => this.#ended(error));
    this.#open = new OpenConnection<Replica>({
      handle: this,
      finish: () => this.#client.finish(),
      cut: () => this.#client.cut(),
      busy: (isBusy) => this.#client.busy(isBusy),
    });
  }

  get closed(): Promise<Error | undefined> {
    return this.#open.closed;
  }

  /** Connects, and asks what it is. */
  async connect(): Promise<void> {
    await this.#client.connect();
    this.#client.busy(false);
    await this.#ask();
    if (this.#isOver) throw new Error('it closed the connection');
    this.#schedule();
  }

  send(read: Read): Promise<unknown> {
    return read.send(this.#client.client);
  }

  callBegins(): void {
    this.#open.callBegins();
  }

  callEnds(): void {
    this.#open.callEnds();
  }

  /** It refused a read: it gets none until it says that it can. */
  doubted({ message }: Error): void {
    this.#object(`it answered ${message}`);
    if (!this.#isOver) this.#schedule();
  }

  async ping(): Promise<void> {
    await this.#client.info();
  }

  close(signal?: AbortSignal): Promise<void> {
    return this.#open.close(signal);
  }

  #ask(): Promise<void> {
    this.#asking ??= this.#learn().finally(() => {
      this.#asking = undefined;
    });
    return this.#asking;
  }

  async #learn(): Promise<void> {
    const { clock } = this.#parts;
    let timer = clock.timer(() => {
      this.#object('it does not answer');
      timer = clock.timer(() => this.#client.cut(), DEAD_MS - SILENT_MS);
    }, SILENT_MS);
    try {
      this.#object(objectionOf(await this.#client.info()));
    } catch (cause) {
      if (this.#isOver) return;
      const error = asError(cause);
      if (!/^NOPERM /.test(error.message)) this.#object(`it answered ${error.message}`);
      else {
        if (this.objection !== undefined) this.#parts.warned(unknowable(this.endpoint, error));
        this.#object(undefined);
      }
    } finally {
      timer.cancel();
    }
  }

  #schedule(): void {
    const { clock, rng, probeIntervalMs } = this.#parts;
    this.#timer?.cancel();
    this.#timer = clock.timer(
      () => {
        void this.#ask().then(() => {
          if (!this.#isOver) this.#schedule();
        });
      },
      jittered(rng, probeIntervalMs, JITTER_RATIO),
    );
  }

  #object(objection: string | undefined): void {
    if (objection === this.objection) return;
    this.objection = objection;
    this.#parts.changed();
  }

  #ended(error: Error | undefined): void {
    this.#isOver = true;
    this.#timer?.cancel();
    this.#open.ended(error);
  }
}

/** Why a server with this answer to INFO may not be read from. */
export function objectionOf(info: string): string | undefined {
  const role = /^role:(\w+)/m.exec(info)?.[1];
  if (role !== 'slave') return `it is no replica, but says role:${role ?? ''}`;
  return /^master_link_status:up/m.test(info) ? undefined : 'its link to the primary is down';
}

function unknowable(of: Endpoint, cause: Error): EvenkeelError {
  const endpoint = endpointAddress(of);
  const message = `${endpoint} may not be asked for its role and its link to the primary (INFO): it counts as a replica`;
  return new EvenkeelError('EVENKEEL_CONNECT', message, { cause, endpoint });
}
