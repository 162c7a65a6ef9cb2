import { isIP, type LookupFunction } from 'node:net';
import { EvenkeelError } from '../../index.js';
import { type Dial, textOf } from '../kit/index.js';

/** The options of Node's `net.connect` and `tls.connect` that evenkeel sets for each dial. */
export interface DialOptions {
  readonly lookup: LookupFunction;
  readonly signal: AbortSignal;
  readonly servername?: string;
}

/**
 * The URL of a Service of brokers. AMQP libraries connect to the Service's name, which TLS therefore checks; `lookup` replaces only the
 * address, by a pod's.
 */
export class BrokerUrl {
  /** The broker Service as a target for evenkeel, such as `rabbit.shop:5672`. */
  readonly target: string;
  readonly port: number;
  readonly #url: string;
  readonly #host: string;

  /** @param url The URL as the application passed it. Throws EVENKEEL_OPTION if it is no amqp: or amqps: URL. */
  constructor(url: unknown) {
    const text = textOf(url);
    const parsed = /^amqps?:\/\/./i.test(text) && URL.canParse(text) ? new URL(text) : undefined;
    if (parsed === undefined || parsed.hostname === '') {
      // The error does not repeat the URL, because it may contain a password.
      throw new EvenkeelError('EVENKEEL_OPTION', 'url must be a URL of a Service such as amqp://rabbit.shop:5672');
    }
    this.#host = parsed.hostname.replace(/^\[(.*)\]$/, '$1');
    this.port = Number(parsed.port || (parsed.protocol === 'amqps:' ? 5671 : 5672));
    this.target = `${parsed.hostname}:${this.port}`;
    // Node dials an IP address without calling `lookup`, so the library gets a name, which `lookup` translates.
    if (isIP(this.#host) !== 0) parsed.hostname = 'brokers.invalid';
    this.#url = parsed.href;
  }

  /** Returns the broker URL with `port` instead of its own port. */
  withPort(port: number | undefined): string {
    const url = new URL(this.#url);
    url.port = String(port ?? this.port);
    return url.href;
  }

  /** Returns the broker URL with this user and password, unless it already has a user. Some libraries read them only from the URL. */
  withUser(username: string, password: string): string {
    const url = new URL(this.#url);
    if (url.username === '' && url.password === '') {
      url.username = encodeURIComponent(username);
      url.password = encodeURIComponent(password);
    }
    return url.href;
  }

  /** Options for `net.connect` or `tls.connect` with which the library connects to the broker of `dial`. */
  dialOptions(dial: Dial): DialOptions {
    const answer = lookupOf(dial.endpoint.address);
    const lookup: LookupFunction = (host, options, callback) => {
      if (dial.isConnecting) answer(host, options, callback);
      else callback(new Error('this broker was picked for an earlier connection'), '', 0);
    };
    return { lookup, signal: dial.signal, ...this.tlsName };
  }

  /** Options for `net.connect` or `tls.connect` with which the connection attempt fails with `error`. */
  noDialOptions(error: Error): Pick<DialOptions, 'lookup'> {
    return { lookup: (_host, _options, callback) => callback(error, '', 0) };
  }

  /** The server name that `tls.connect` sends and checks in the certificate. */
  get tlsName(): { readonly servername?: string } {
    return isIP(this.#host) === 0 ? { servername: this.#host } : {};
  }
}

/** Returns a `lookup` function that resolves every name to `address`. */
function lookupOf(address: string): LookupFunction {
  const family = isIP(address);
  return (_host, options, callback) => {
    if (options.all) callback(null, [{ address, family }]);
    else callback(null, address, family);
  };
}

/** Whether a broker rejected the user or the virtual host of a connection. All other brokers of the cluster would reject them too. */
export function isRefusal(error: unknown): boolean {
  if (error instanceof TypeError || error instanceof RangeError) return true;
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown };
  return code === 'EVENKEEL_OPTION' || /ACCESS[-_]REFUSED|NOT[-_]ALLOWED/.test(`${String(code)} ${String(message)}`);
}
