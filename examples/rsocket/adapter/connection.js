import { afterPendingIo, asError, openSocket, socketConnection } from 'evenkeel/adapter';
import { ErrorCodes, Flags, FrameTypes, RSocketConnector } from 'rsocket-core';
import { TcpClientTransport } from 'rsocket-tcp-client';

/**
 * The largest lease that the RSocket library accepts. The library is given this lease, because the balancer itself enforces what servers
 * grant.
 */
const unlimited = { requestCount: Number.MAX_SAFE_INTEGER, ttl: Number.MAX_SAFE_INTEGER };

/** Opens RSocket connections to pods over TCP or TLS. `host` is the Service's name, which TLS sends and verifies. */
export function rsocketTransport(settings, host) {
  const { tls, clock } = settings;
  return {
    async connect(endpoint, signal) {
      const socket = await openSocket(endpoint, signal, tls === undefined ? {} : { host, tls });
      return new PodRSocket(socket, settings, clock.now()).open(signal);
    },
  };
}

/** The RSocket connection to one pod. The library sends requests; keep-alive, lease and close frames are handled here. */
export class PodRSocket {
  connection;
  #socket;
  #settings;
  #requester;
  #frames;
  #library;
  #isOpen = true;
  /** When the last keep-alive frame from the pod arrived, a time of the injected clock. */
  #receivedAtMs;
  #beat;
  /** Pings that wait for their answer, by the data in their keep-alive frame. */
  #pings = new Map();
  #pinged = 0;
  /** How many more requests the server accepts now, if it grants leases. */
  #granted = 0;
  #leaseEnds;

  constructor(socket, settings, nowMs) {
    this.#socket = socket;
    this.#settings = settings;
    this.#receivedAtMs = nowMs;
    this.connection = socketConnection(socket, {
      handle: this,
      capacity: settings.lease ? 0 : Number.POSITIVE_INFINITY,
      ping: (signal) => this.#ping(signal),
      finish: () => {
        this.#requester.close();
        // The RSocket library has stopped reading from the socket, so the end of the stream would otherwise go unnoticed.
        socket.resume();
      },
    });
    // An idle socket does not keep the process alive; running calls do.
    socket.unref();
    socket.once('close', () => this.#closed());
  }

  /** Whether a request that is sent on this connection now would reach the socket. */
  get isOpen() {
    return this.#isOpen;
  }

  /** Performs the RSocket setup. Rejects if the server refuses it, or with the reason of `signal`. */
  async open(signal) {
    const { setup, fragmentation, responder, lease, clock } = this.#settings;
    const config = { setup, fragmentation, responder, transport: this.#transport() };
    try {
      this.#requester = await new RSocketConnector(lease ? { ...config, lease: {} } : config).connect();
      // The library's timers keep the process alive and ignore the balancer's clock, so keep-alive frames are sent here instead.
      this.#library.pause();
      // Servers do not answer an accepted SETUP frame, but they answer a keep-alive frame only after they accepted the SETUP.
      await this.#ping(signal);
    } catch (error) {
      this.#socket.destroy();
      throw (await this.connection.closed) ?? error;
    }
    this.#beat = clock.timer(() => this.#keepAlive(), setup.keepAlive);
    return this.connection;
  }

  /** The library's requester, which sends requests. Callers report each stream with `streamBegins` and `streamEnds`. */
  get requester() {
    return this.#requester;
  }

  streamBegins() {
    this.#granted--;
    this.connection.callBegins();
  }

  streamEnds() {
    this.connection.callEnds();
    this.#carry();
  }

  pushMetadata(metadata) {
    this.#frames.send({ type: FrameTypes.METADATA_PUSH, streamId: 0, flags: Flags.METADATA, metadata });
  }

  #transport() {
    // The RSocket library waits for its socket's `connect` event, which has already been emitted.
    const socketCreator = () => {
      queueMicrotask(() => this.#socket.emit('connect'));
      return this.#socket;
    };
    const tcp = new TcpClientTransport({ connectionOptions: { port: 0 }, socketCreator });
    return {
      connect: (makeStreams) =>
        tcp.connect((outbound) => {
          // The pool is notified of a connection's end before its streams are, so that calls which streams start then do not get this
          // connection.
          outbound.onClose((error) => this.#ends(error));
          const streams = makeStreams(outbound);
          this.#frames = streams.connectionOutbound;
          return {
            connectionOutbound: streams.connectionOutbound,
            createRequestStream: (handler) => streams.createRequestStream(handler),
            connectionInbound: (connectionFrames) => {
              this.#library = connectionFrames;
              streams.connectionInbound(this.#readFrames(connectionFrames));
            },
            handleRequestStream: (handler) => streams.handleRequestStream(handler),
            handle: (frame) => streams.handle(frame),
            close: (error) => streams.close(error),
          };
        }),
    };
  }

  #readFrames(library) {
    return {
      handle: (frame) => this.#read(frame, library),
      close: (error) => library.close(error),
      pause: () => library.pause(),
      resume: () => library.resume(),
    };
  }

  #read(frame, library) {
    if (frame.type === FrameTypes.KEEPALIVE) this.#keepAliveReceived(frame);
    else if (frame.type === FrameTypes.LEASE && this.#settings.lease) {
      library.handle({ ...frame, ...unlimited });
      this.#lease(frame);
    }
    // A CONNECTION_CLOSE frame asks for an end once the running streams have ended; the library would cut them.
    else if (frame.type === FrameTypes.ERROR && frame.code === ErrorCodes.CONNECTION_CLOSE) this.connection.leaves();
    else library.handle(frame);
  }

  #lease({ requestCount, ttl }) {
    this.#granted = requestCount;
    this.#leaseEnds?.cancel();
    this.#leaseEnds = this.#settings.clock.timer(() => {
      this.#granted = 0;
      this.#carry();
    }, ttl);
    this.#carry();
  }

  /** Reports how many calls the connection can carry: those that run, plus those that the server still accepts. */
  #carry() {
    if (this.#settings.lease) this.connection.carries(this.connection.running + Math.max(0, this.#granted));
  }

  #keepAliveReceived({ flags, data }) {
    this.#receivedAtMs = this.#settings.clock.now();
    if (Flags.hasRespond(flags)) this.#sendKeepAlive(Flags.NONE, data);
    else if (data?.length) this.#pings.get(data.toString('latin1'))?.();
  }

  #sendKeepAlive(flags, data) {
    this.#frames.send({ type: FrameTypes.KEEPALIVE, streamId: 0, flags, data, lastReceivedPosition: 0 });
  }

  #keepAlive() {
    const { clock, setup } = this.#settings;
    const leftMs = this.#receivedAtMs + setup.lifetime - clock.now();
    if (leftMs > 0) {
      this.#sendKeepAlive(Flags.RESPOND, undefined);
      this.#beat = clock.timer(() => this.#keepAlive(), Math.min(setup.keepAlive, leftMs));
      return;
    }
    // If this process was blocked, a keep-alive frame may have arrived without having been read.
    const receivedAtMs = this.#receivedAtMs;
    afterPendingIo(() => {
      if (this.#receivedAtMs !== receivedAtMs) this.#keepAlive();
      else this.#socket.destroy(new Error(`no keep-alive frame for ${setup.lifetime} ms`));
    });
  }

  #ping(signal) {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const data = String(++this.#pinged);
      const settle = (error) => {
        this.#pings.delete(data);
        signal.removeEventListener('abort', aborted);
        if (error === undefined) resolve(undefined);
        else reject(error);
      };
      const aborted = () => settle(asError(signal.reason));
      signal.addEventListener('abort', aborted, { once: true });
      this.#pings.set(data, settle);
      this.#sendKeepAlive(Flags.RESPOND, Buffer.from(data, 'latin1'));
    });
  }

  /** The library closed the connection: in order, because the server ended it, or because of a frame it cannot read. */
  #ends(error) {
    this.#isOpen = false;
    if (error !== undefined && !this.#socket.destroyed) this.#socket.destroy(error);
  }

  #closed() {
    this.#isOpen = false;
    this.#beat?.cancel();
    this.#leaseEnds?.cancel();
    for (const settle of [...this.#pings.values()]) settle(new Error('the connection was closed'));
  }
}
