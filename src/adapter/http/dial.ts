import { connect as connectTcp, isIP, type LookupFunction, type Socket, type TcpNetConnectOpts } from 'node:net';
import { type ConnectionOptions, checkServerIdentity, connect as connectTls } from 'node:tls';
import { type Clock, type Endpoint, hostPort } from '../../index.js';
import { isPodLeftError } from './pod-left.js';

/** How sockets to the endpoints of one Service are opened. */
export interface DialOptions {
  /** Whose name is put in SNI and checked in the certificate; the endpoint's address is only dialled. */
  readonly origin: URL;
  readonly connectTimeoutMs: number;
  readonly tcpKeepAliveMs: number;
  readonly allowH2: boolean;
  readonly tls: ConnectionOptions;
  readonly clock: Clock;
  /** The errors of the adapter for what no system call reports. */
  readonly errors: DialErrors;
}

/** How an adapter calls the two ends of a dial that have no error of the system. */
export interface DialErrors {
  /** It took too long. */
  timedOut(message: string): Error;
  /** The other side closed before the connection stood. */
  closed(message: string): Error;
}

/** What is dialled, and named in messages. */
export type Dialable = Pick<Endpoint, 'address' | 'port'>;

/** The host and port a mock takes a socket to be for. */
export interface Shown {
  readonly host: string;
  readonly port: number;
}

/** Called exactly once, never before `dial` has returned. */
export type Dialled = (error: Error | undefined, socket: Socket) => void;

// As in undici: a larger buffer than Node's default for plain sockets, TLS records hold no more than 16 KiB.
const TCP_HIGH_WATER_MARK = 64 * 1024;
const TLS_HIGH_WATER_MARK = 16 * 1024;

/** An option of every socket that its types leave out. */
interface SizedBuffer {
  readonly highWaterMark: number;
}

const dialErrors = new WeakSet<Error>();

/** Whether `error` says that no connection could be opened, so that nothing of a request was sent. */
export function isDialError(error: Error): boolean {
  return dialErrors.has(error);
}

/** Finds the address of an endpoint behind another name; over TLS nothing else can be put in its place. */
function lookupOf({ address, port }: Dialable, shown: Shown): LookupFunction {
  return (host, { all }, found) => {
    const family = isIP(address);
    if (port !== shown.port) {
      const why = 'a mock let a request through, and over TLS it can be sent on to the same port only';
      found(new Error(`${host}:${shown.port} is port ${port} of ${address}: ${why}`), '');
    } else if (all) found(null, [{ address, family }]);
    else found(null, address, family);
  };
}

/** The name TLS puts in SNI and checks: the Service's, without the dot that makes a DNS name absolute. */
export function tlsName(origin: URL, tls: ConnectionOptions): string | undefined {
  if (tls.servername !== undefined) return tls.servername;
  const host = bareHost(origin);
  return isIP(host) === 0 ? host : undefined;
}

/** The host of a URL as one would dial it: no brackets, no final dot. */
export function bareHost(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
}

/**
 * A function that opens sockets to one endpoint. Ours rather than undici's connector, which cannot be called off,
 * rounds its time-out up to a second and keeps TLS sessions per name: here they are kept per endpoint, so that a new
 * pod behind an old address never sees them (U7).
 *
 * @param shown What a mock that stands in front of sockets sees in place of the endpoint.
 */
export function dialler(
  endpoint: Dialable,
  options: DialOptions,
  shown: Shown | undefined = undefined,
): (dialled: Dialled) => Socket {
  const { origin, connectTimeoutMs, tcpKeepAliveMs, allowH2, tls, clock, errors } = options;
  const secure = origin.protocol === 'https:';
  const servername = tlsName(origin, tls);
  const address = { host: endpoint.address, port: endpoint.port };
  const target = shown === undefined ? address : { ...shown, lookup: lookupOf(endpoint, shown) };
  let session: Buffer | undefined;

  const open = (): Socket => {
    if (!secure) {
      const settings: TcpNetConnectOpts & SizedBuffer = {
        ...target,
        highWaterMark: TCP_HIGH_WATER_MARK,
        noDelay: true,
      };
      const socket = connectTcp(settings);
      // By now a mock has read them. It dials by them what it lets through, and then the port may be another.
      if (shown !== undefined) Object.assign(settings, address, { lookup: undefined });
      return socket;
    }
    const settings: ConnectionOptions & SizedBuffer = {
      // An origin that is an IP address has no SNI, but its certificate must name it, not the pod behind it.
      checkServerIdentity: (_dialled, certificate) => checkServerIdentity(servername ?? bareHost(origin), certificate),
      ...tls,
      ...target,
      ...(servername !== undefined && { servername }),
      ...(session !== undefined && { session }),
      ALPNProtocols: allowH2 ? ['h2', 'http/1.1'] : ['http/1.1'],
      highWaterMark: TLS_HIGH_WATER_MARK,
    };
    const socket = connectTls(settings);
    socket.setNoDelay(true);
    socket.on('session', (fresh) => {
      session = fresh;
    });
    return socket;
  };

  return (dialled) => {
    const socket = open();
    socket.setKeepAlive(true, tcpKeepAliveMs);
    const timer = clock.timer(() => {
      const limit = `${connectTimeoutMs} ms`;
      socket.destroy(errors.timedOut(`${hostPort(endpoint.address, endpoint.port)} did not connect within ${limit}`));
    }, connectTimeoutMs);
    let settled = false;
    const settle = (error: Error | undefined): void => {
      if (settled) return;
      settled = true;
      timer.cancel();
      if (error !== undefined && !isPodLeftError(error)) dialErrors.add(error);
      dialled(error, socket);
    };
    socket.once(secure ? 'secureConnect' : 'connect', () => settle(undefined));
    // Stays for the socket's life, so that no error finds nobody listening while the socket changes hands.
    socket.on('error', settle);
    socket.once('close', () => {
      if (!settled) settle(errors.closed(`${hostPort(endpoint.address, endpoint.port)} closed while connecting`));
    });
    return socket;
  };
}
