import { connect as connectTcp, isIP, type LookupFunction, Socket, type TcpNetConnectOpts } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { type Clock, type Endpoint, endpointAddress, type Timer } from '../../index.js';
import {
  asError,
  checkTlsOptions,
  deadline,
  isPerEndpointError,
  isPromise,
  optionError,
  type PerEndpoint,
  perEndpointError,
  serviceTls,
  setByHttp,
  valueFor,
} from '../kit/index.js';
import { detectHttp2, type SpokenSocket } from './prior-knowledge.js';

/** The `tls` option: TLS settings, or a function that returns them for each new connection. */
export type TlsOption = PerEndpoint<ConnectionOptions>;

/** How sockets to the endpoints of one Service are opened. */
export interface DialOptions {
  /** The origin whose host name TLS sends in SNI and checks in the certificate; the endpoint's address is only dialed. */
  readonly origin: URL;
  readonly connectTimeoutMs: number;
  readonly tcpKeepAliveMs: number;
  /**
   * Whether HTTP/2 may be used: over TLS it is offered; in the clear the endpoint is probed, and its socket then has `h2` as its protocol
   * too.
   */
  readonly allowH2: boolean;
  readonly tls: TlsOption;
  readonly clock: Clock;
  /** Creates the adapter's own errors, for failures that no system call reports. */
  readonly errors: DialErrors;
}

/** Creates an adapter's errors for the two failures of a dial without a system error. */
export interface DialErrors {
  /** Creates the error for a connection that took too long to open. */
  timedOut(message: string): Error;
  /** Creates the error for a connection that the other side closed before it was established. */
  closed(message: string): Error;
}

/** The host and port that a library which mocks HTTP associates with a socket. */
export interface Shown {
  readonly host: string;
  readonly port: number;
}

/**
 * The callback of `dial`, called exactly once, never before `dial` has returned. Its socket is the one that `dial` returned, except where a
 * function provided TLS settings: there `dial` returned the plain socket underneath.
 */
export type Dialled = (error: Error | undefined, socket: Socket) => void;

// Buffer sizes as in undici: larger than Node's default for plain sockets; TLS records hold no more than 16 KiB.
const TCP_HIGH_WATER_MARK = 64 * 1024;
const TLS_HIGH_WATER_MARK = 16 * 1024;

/**
 * The share of the connect timeout that a function which provides TLS settings may take, so that it ends before anything else that watches
 * the timeout.
 */
export const TLS_FUNCTION_SHARE = 0.9;

/** A socket option that Node's types lack. */
interface SizedBuffer {
  readonly highWaterMark: number;
}

const dialErrors = new WeakSet<Error>();

/** Marks an error as that of a connection that could not be opened, so that nothing of a request was sent. */
export function asDialError<E extends Error>(error: E): E {
  dialErrors.add(error);
  return error;
}

/** Whether `asDialError` marked this error, or a dial failed with it. */
export function isDialError(error: Error): boolean {
  return dialErrors.has(error);
}

/** Whether `error` says that the endpoint supports none of the offered HTTP versions; nothing else is wrong with the endpoint. */
export function isProtocolError(error: Error & { readonly code?: unknown }): boolean {
  return error.code === 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL';
}

/**
 * A DNS lookup that resolves any name to an endpoint's address. Over TLS there is no other way to dial the address under the Service's
 * name.
 */
function lookupOf({ address, port }: Endpoint, shown: Shown): LookupFunction {
  return (host, { all }, resolved) => {
    const family = isIP(address);
    if (port !== shown.port) {
      const why = 'a mock let a request through, and over TLS it can be sent on to the same port only';
      resolved(new Error(`${host}:${shown.port} is port ${port} of ${address}: ${why}`), '');
    } else if (all) resolved(null, [{ address, family }]);
    else resolved(null, address, family);
  };
}

/** The host of a URL in the form to dial: without brackets and without a final dot. */
export function bareHost(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
}

/**
 * Returns a function that opens sockets to one endpoint. undici's connector is not used, because it cannot be canceled, rounds its timeout
 * up to a second and keeps TLS sessions per name. Here they are kept per endpoint, so that a new pod with an old address never sees them
 * (U7).
 *
 * @param shown The host and port that a mock of sockets sees in place of the endpoint.
 */
export function dialler(
  endpoint: Endpoint,
  options: DialOptions,
  shown: Shown | undefined = undefined,
): (dialled: Dialled) => Socket {
  const { origin, connectTimeoutMs, tcpKeepAliveMs, allowH2, tls, clock, errors } = options;
  const secure = origin.protocol === 'https:';
  const address = { host: endpoint.address, port: endpoint.port };
  const target = shown === undefined ? address : { ...shown, lookup: lookupOf(endpoint, shown) };
  /**
   * Whether a new socket in the clear has to be probed for HTTP/2. An endpoint that does not speak HTTP/2 is probed only once. One that
   * does is probed for each socket, because it may have been replaced since.
   */
  let asks = allowH2 && !secure;
  /** The endpoint's last TLS session, with the TLS settings of its connection: a session proves which certificate we presented. */
  let session: { readonly data: Buffer; readonly tls: ConnectionOptions } | undefined;

  const openPlain = (): Socket => {
    const settings: TcpNetConnectOpts & SizedBuffer = { ...target, highWaterMark: TCP_HIGH_WATER_MARK, noDelay: true };
    const socket = connectTcp(settings);
    // A mock has read the host and port by now. If it lets the request through, it dials with these settings, and the port may be another.
    if (shown !== undefined) Object.assign(settings, address, { lookup: undefined });
    return socket;
  };

  const openSecure = (tlsOptions: ConnectionOptions, over?: Socket): Socket => {
    const settings: ConnectionOptions & SizedBuffer = {
      ...serviceTls(bareHost(origin), tlsOptions),
      ...(over === undefined ? target : { socket: over }),
      ...(session !== undefined && isSameSettings(session.tls, tlsOptions) && { session: session.data }),
      ALPNProtocols: allowH2 ? ['h2', 'http/1.1'] : ['http/1.1'],
      highWaterMark: TLS_HIGH_WATER_MARK,
    };
    const socket = connectTls(settings);
    socket.setNoDelay(true);
    socket.on('session', (data) => {
      session = { data, tls: tlsOptions };
    });
    return socket;
  };

  return (dialled) => {
    let settled = false;
    /** The timer that limits how long the function that provides TLS settings may take. */
    let tlsTimer: Timer | undefined;
    const settle = (error: Error | undefined, socket: Socket): void => {
      if (settled) return;
      settled = true;
      timer.cancel();
      tlsTimer?.cancel();
      if (error !== undefined) {
        explain(error, endpoint, allowH2);
        // A failure of the function that provides TLS settings says nothing about the endpoint.
        if (!isPerEndpointError(error) && !isPodLeftError(error) && !isProtocolError(error)) asDialError(error);
      }
      dialled(error, socket);
    };
    /** Keeps an open socket from its user until it is known whether the endpoint speaks HTTP/2. */
    const probeHttp2 = (socket: SpokenSocket): void => {
      const probeSocket = openPlain();
      // The probe's socket must not keep the process alive: the socket that waits for the probe decides that.
      probeSocket.unref();
      const giveUp = (): void => void probeSocket.destroy();
      socket.once('close', giveUp);
      const answered = (isHttp2: boolean): void => {
        socket.off('close', giveUp);
        asks = isHttp2;
        if (isHttp2) socket.alpnProtocol = 'h2';
        settle(undefined, socket);
      };
      detectHttp2(probeSocket, answered, (error) => socket.destroy(error));
    };
    /** @param first The socket that `dial` returned. */
    const follow = (socket: Socket, opened: string | undefined, first: Socket): Socket => {
      if (opened !== undefined) socket.once(opened, () => (asks ? probeHttp2(socket) : settle(undefined, socket)));
      // The error listener stays for the socket's life, so that no error is unhandled while the socket changes owners.
      socket.on('error', (error) => settle(error, first));
      socket.once('close', () => {
        if (!settled) settle(errors.closed(`${endpointAddress(endpoint)} closed while connecting`), first);
      });
      return socket;
    };
    const begin = (): Socket => {
      if (!secure) return openPlain();
      if (typeof tls !== 'function') return openSecure(tls);
      const tlsOptions = valueFor('tls', tls, endpoint, checkReturnedTls);
      if (!isPromise(tlsOptions)) return refused(() => openSecure(tlsOptions));
      const plain = openPlain();
      const limitMs = connectTimeoutMs * TLS_FUNCTION_SHARE;
      const late = (): void => void plain.destroy(perEndpointError('tls', endpoint, `took more than ${limitMs} ms`));
      tlsTimer = deadline(clock, late, limitMs);
      tlsOptions
        .then((answer) => {
          tlsTimer?.cancel();
          if (plain.destroyed) return;
          // From here on TLS reads from the plain socket and ends it, and this code does not.
          const tlsSocket = refused(() => openSecure(answer, plain));
          follow(tlsSocket, 'secureConnect', plain);
        })
        .catch((error) => plain.destroy(error));
      return plain;
    };
    /** Opens a socket, and turns Node's error about unusable TLS settings into a failed dial. */
    const refused = (open: () => Socket): Socket => {
      try {
        return open();
      } catch (error) {
        throw perEndpointError('tls', endpoint, `returned what cannot be used: ${asError(error).message}`, error);
      }
    };

    const tooLate = (): void => {
      const what = asks && !socket.connecting ? 'did not answer the preface of HTTP/2' : 'did not connect';
      socket.destroy(errors.timedOut(`${endpointAddress(endpoint)} ${what} within ${connectTimeoutMs} ms`));
    };
    const timer = deadline(clock, tooLate, connectTimeoutMs);
    let socket: Socket;
    try {
      socket = begin();
    } catch (error) {
      // An error about TLS settings that were passed as a value is thrown; an error about the settings of a function fails the connection.
      if (typeof tls !== 'function') {
        timer.cancel();
        throw error;
      }
      socket = new Socket().destroy(asError(error));
    }
    follow(socket, tlsTimer !== undefined ? undefined : secure ? 'secureConnect' : 'connect', socket);
    socket.setKeepAlive(true, tcpKeepAliveMs);
    return socket;
  };
}

/** OpenSSL's error codes for a server that does not speak TLS. */
const NO_TLS: ReadonlySet<unknown> = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG']);

/** Adds the most likely mistake to the message of an OpenSSL error. The error's code stays. */
function explain(error: Error & { readonly code?: unknown }, endpoint: Endpoint, allowH2: boolean): void {
  const address = endpointAddress(endpoint);
  if (isProtocolError(error)) {
    const speaks = allowH2 ? 'speaks neither HTTP/2 nor HTTP/1.1' : 'does not speak HTTP/1.1, most likely HTTP/2 only';
    error.message = `${address} ${speaks} (${error.message.trim()})`;
  }
  if (!NO_TLS.has(error.code)) return;
  error.message = `${address} does not speak TLS, most likely plain HTTP; use http:// (${error.message.trim()})`;
}

const podLeftErrors = new WeakSet<Error>();

/** Marks an error as caused by a pod that left the Service before anything of the request was sent. */
export function asPodLeftError<E extends Error>(error: E): E {
  podLeftErrors.add(error);
  return error;
}

/** Whether `asPodLeftError` marked this error, so that nothing of the request was sent. */
export function isPodLeftError(error: Error): boolean {
  return podLeftErrors.has(error);
}

export function podLeftMessage(endpoint: Endpoint): string {
  return `${endpointAddress(endpoint)} left the Service before the request was sent`;
}

/** Creates the error of a dial that was canceled because its pod has left. */
export function dialLeftError(endpoint: Endpoint): Error {
  // The error has a system error code, because undici would dial again after an error of its own kind.
  return asPodLeftError(Object.assign(new Error(podLeftMessage(endpoint)), { code: 'ECONNABORTED' }));
}

/** Checks a `tls` option. Throws EVENKEEL_OPTION. */
export function checkTls(origin: URL, tls: unknown): void {
  if (tls === undefined) return;
  const fits = typeof tls === 'function' || (typeof tls === 'object' && tls !== null);
  if (!fits) throw optionError('tls', 'an object as for tls.connect, or a function that returns one', tls);
  if (origin.protocol === 'http:') throw optionError('tls', 'left out for http: targets', tls);
  if (typeof tls !== 'function') checkTlsOptions('tls', tls, setByHttp);
}

/** Checks and copies the result of a `tls` function. The error for an invalid result does not contain the value, which may be a key. */
export function checkReturnedTls(tls: ConnectionOptions): ConnectionOptions {
  if (typeof tls !== 'object' || tls === null) throw new TypeError('it returned no object as for tls.connect');
  return checkTlsOptions('tls', tls, setByHttp);
}

/** Whether two TLS settings have the same names with the same values. Contents of buffers are not compared. */
function isSameSettings(before: ConnectionOptions, now: ConnectionOptions): boolean {
  if (before === now) return true;
  const names = Object.keys(now) as (keyof ConnectionOptions)[];
  return names.length === Object.keys(before).length && names.every((name) => before[name] === now[name]);
}
