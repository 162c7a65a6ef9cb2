import type { Agent } from 'node:http';
import type { Clock, Endpoint, Rng, Transport } from '../../index.js';
import type { DialErrors, DialOptions, TlsOption } from '../http/dial.js';
import { openPod, type Pod, type PodHttpClient, type PodParts } from '../http/pod.js';
import { httpTransportTable, MAX_TIME_MS, resolveHttpTransport } from '../http/transport-options.js';
import { type Filled, nodeHttp, numberOption, type OptionTable, optionTable } from '../kit/index.js';
import { PodAgent } from './pod-agent.js';

/** Options for the sockets to each pod: how they are opened and used. */
export interface NodeHttpConnectionOptions {
  /**
   * The most sockets per pod; each carries one request at a time. Further requests wait for a socket. At most 128 sockets to a pod are
   * being opened at a time.
   * @defaultValue Infinity: as many as requests run at once, as with Node's own Agent
   */
  readonly connections?: number | undefined;
  /**
   * TLS settings for `https:` targets (`ca`, `cert`, `key`, …), as `tls.connect` takes them; TLS settings of a single request have no
   * effect. The name that is sent and checked is the Service's unless `servername` says otherwise. A function, sync or async, is called for
   * each new connection, within its connect timeout: for certificates that are renewed. If the function throws, the error is
   * EVENKEEL_OPTION and does not count against the pod. @defaultValue {}
   * @see docs/guide/http.md#certificates-that-are-renewed
   */
  readonly tls?: TlsOption | undefined;
  /**
   * How often a function given as `tls` is also called while connections are open, in ms, ± 20 %. If it returns other certificates or keys
   * (`cert`, `key`, `ca`, `pfx`) than a connection was opened with, that connection is replaced: a new one is opened first, and running
   * requests finish on the old one. Infinity = never. @defaultValue 60000
   * @see docs/guide/http.md#certificates-that-are-renewed
   */
  readonly credentialsRefreshMs?: number | undefined;
  /**
   * How long an idle socket is kept, in ms. If the pod announces `Keep-Alive: timeout=…`, the socket is kept until 2 s before that expires
   * (at least 1 s before, if the timeout is below 4 s). @defaultValue 60000
   */
  readonly keepAliveTimeoutMs?: number | undefined;
  /** Idle time after which TCP probes whether the other side is alive, in ms. @defaultValue 15000 */
  readonly tcpKeepAliveMs?: number | undefined;
  /**
   * The path that active health checks GET, such as `/healthz`; a status below 400 means healthy. @defaultValue none: a check only opens a
   * connection
   */
  readonly healthPath?: string | undefined;
}

/** Options of `nodeHttpTransport`. */
export interface NodeHttpTransportOptions extends NodeHttpConnectionOptions {
  /** The Service as `http://name:port` or `https://name:port`; over TLS its name is sent and checked. */
  readonly origin: string | URL;
  /** The longest time to open one connection, in ms. @defaultValue 2000 */
  readonly connectTimeoutMs?: number | undefined;
  /** The clock that is used for all times, for tests. @defaultValue the system's clock */
  readonly clock?: Clock | undefined;
  /** The source of all randomness, for tests. @defaultValue the system's randomness */
  readonly rng?: Rng | undefined;
}

const { origin, connectTimeoutMs, clock, rng, ...common } = httpTransportTable.options;

export const nodeHttpConnectionTable: OptionTable<Filled<NodeHttpConnectionOptions, 'tls' | 'healthPath'>> =
  optionTable('options', {
    ...common,
    keepAliveTimeoutMs: numberOption(60_000, { min: 1, max: MAX_TIME_MS, integer: true }),
  });

const transportTable = optionTable<
  (typeof nodeHttpConnectionTable)['defaults'] &
    Pick<(typeof httpTransportTable)['defaults'], 'origin' | 'connectTimeoutMs' | 'clock' | 'rng'>
>('options', { ...nodeHttpConnectionTable.options, origin, connectTimeoutMs, clock, rng });

const dialErrors: DialErrors = {
  timedOut: (message) => Object.assign(new Error(message), { code: 'ETIMEDOUT' }),
  closed: (message) => Object.assign(new Error(message), { code: 'ECONNRESET' }),
};

/**
 * Creates a transport that opens one keep-alive Agent per pod: whatever host its requests name, its sockets go to the pod's address. The
 * first socket is opened before the first request.
 *
 * @param options Checked; throws EVENKEEL_OPTION if one is invalid.
 */
export function nodeHttpTransport(options: NodeHttpTransportOptions): Transport<Agent> {
  return new PodTransport(options);
}

/** What a connection to one pod needs. */
interface AgentParts extends PodParts {
  readonly keepAliveTimeoutMs: number;
}

/** The transport behind `nodeHttpTransport`. `createAgent` uses this class directly, because it needs the Agents of all pods. */
export class PodTransport implements Transport<PodAgent> {
  readonly #parts: Omit<AgentParts, 'endpoint'>;
  readonly #open = new Set<PodAgent>();

  constructor(options: NodeHttpTransportOptions) {
    this.#parts = connectionParts(options);
  }

  /** The Agents of all pods whose connection is open. */
  get open(): Iterable<PodAgent> {
    return this.#open;
  }

  /** The options with which sockets to the pods are opened. */
  get dial(): DialOptions {
    return this.#parts.dial;
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<Pod<PodAgent>> {
    const parts = { ...this.#parts, endpoint };
    const connection = await openPod<PodAgent>(parts, (pod) => new AgentClient(parts, pod), signal);
    const { handle } = connection;
    this.#open.add(handle);
    void connection.closed.then(() => this.#open.delete(handle));
    return connection;
  }
}

function connectionParts(options: NodeHttpTransportOptions): Omit<AgentParts, 'endpoint'> {
  const { keepAliveTimeoutMs } = transportTable.resolve(options);
  return { ...resolveHttpTransport(options, { allowH2: false, errors: dialErrors }), keepAliveTimeoutMs };
}

/** One pod for `node:http`: a keep-alive Agent whose sockets go to the pod's address. */
class AgentClient implements PodHttpClient<PodAgent> {
  readonly handle: PodAgent;
  readonly capacity: number;
  readonly #origin: URL;
  readonly #pod: Pod<PodAgent>;

  constructor({ endpoint, dial, connections, keepAliveTimeoutMs, clock }: AgentParts, pod: Pod<PodAgent>) {
    this.#origin = dial.origin;
    this.#pod = pod;
    this.capacity = connections;
    this.handle = new PodAgent({ endpoint, origin: dial.origin, pod, connections, keepAliveTimeoutMs, clock });
  }

  getStatus(path: string, signal: AbortSignal): Promise<number | undefined> {
    const { protocol, host } = this.#origin;
    return new Promise((resolve, reject) => {
      const request = nodeHttp.get({ agent: this.handle, protocol, path, headers: { host }, signal }, (response) => {
        response.resume();
        response.once('end', () => resolve(response.statusCode)).once('error', reject);
      });
      request.once('error', (error) => reject(signal.aborted ? signal.reason : error));
    });
  }

  finish(): Promise<void> {
    this.handle.stop();
    return this.#pod.finished();
  }

  cut(): void {
    this.handle.cut();
  }
}
