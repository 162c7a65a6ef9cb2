import type { AddressInfo, Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { Clock, Timer } from '../../index.js';

type Later = 'setNoDelay' | 'setKeepAlive' | 'setTimeout' | 'setTypeOfService' | 'ref' | 'unref';
/** Node 24 added these in a minor version. */
type NewerSocket = Socket & { getTypeOfService?(): number };

/**
 * A stream that exists before its socket does, for libraries that need one synchronously. A socket cannot be replaced once it is handed
 * out, but this stream can get the socket of another pod if the first pod cannot be connected to. It has the documented properties and
 * methods of `net.Socket`.
 */
export class ConnectingSocket extends Duplex {
  /** The timeout that was set with `setTimeout`, in ms. */
  timeout: number | undefined = undefined;
  #socket: Socket | undefined;
  /** How many bytes were handed to the socket and are not yet taken: both this stream and the socket count them. */
  #passing = 0;
  readonly #abort = new AbortController();
  readonly #connect: (signal: AbortSignal) => Promise<Socket>;
  readonly #waiting: ((socket: Socket) => void)[] = [];
  readonly #clock: Clock;
  /** Measures the timeout while there is no socket yet; later the socket measures it. */
  #timer: Timer | undefined;
  #typeOfService = 0;

  constructor(connect: (signal: AbortSignal) => Promise<Socket>, clock: Clock) {
    // As with a socket, this stream ends its own side when the other side ends.
    super({ allowHalfOpen: false });
    this.#connect = connect;
    this.#clock = clock;
  }

  get connecting(): boolean {
    return this.#socket === undefined && !this.destroyed;
  }

  get pending(): boolean {
    return this.#socket?.pending ?? true;
  }

  get readyState(): 'opening' | 'open' | 'readOnly' | 'writeOnly' | 'closed' {
    if (this.connecting) return 'opening';
    if (this.readable) return this.writable ? 'open' : 'readOnly';
    return this.writable ? 'writeOnly' : 'closed';
  }

  get remoteAddress(): string | undefined {
    return this.#socket?.remoteAddress;
  }

  get remoteFamily(): string | undefined {
    return this.#socket?.remoteFamily;
  }

  get remotePort(): number | undefined {
    return this.#socket?.remotePort;
  }

  get localAddress(): string | undefined {
    return this.#socket?.localAddress;
  }

  get localFamily(): string | undefined {
    return this.#socket?.localFamily;
  }

  get localPort(): number | undefined {
    return this.#socket?.localPort;
  }

  get bytesRead(): number {
    return this.#socket?.bytesRead ?? 0;
  }

  /** How many bytes were written, including those still buffered, as a socket counts them. */
  get bytesWritten(): number {
    return (this.#socket?.bytesWritten ?? 0) + this.writableLength - this.#passing;
  }

  get bufferSize(): number {
    return this.writableLength;
  }

  get autoSelectFamilyAttemptedAddresses(): string[] | undefined {
    return (this.#socket as { autoSelectFamilyAttemptedAddresses?: string[] } | undefined)
      ?.autoSelectFamilyAttemptedAddresses;
  }

  address(): AddressInfo | object {
    return this.#socket?.address() ?? {};
  }

  /**
   * Calls the callback once this stream is connected, for libraries that connect the socket they are given. All other arguments are
   * ignored, because this stream connects to a pod by itself.
   */
  connect(...args: unknown[]): this {
    const callback = args.at(-1);
    if (typeof callback !== 'function') return this;
    if (this.connecting) this.once('connect', callback as () => void);
    else process.nextTick(callback as () => void);
    return this;
  }

  destroySoon(): void {
    if (this.writable) this.end();
    if (this.writableFinished) this.destroy();
    else this.once('finish', () => this.destroy());
  }

  resetAndDestroy(): this {
    this.#socket?.resetAndDestroy();
    return this.destroy();
  }

  setNoDelay(on?: boolean): this {
    return this.#later('setNoDelay', on);
  }

  setKeepAlive(on?: boolean, initialDelayMs?: number): this {
    return this.#later('setKeepAlive', on, initialDelayMs);
  }

  setTimeout(ms: number, callback?: () => void): this {
    this.timeout = ms;
    if (callback !== undefined && ms === 0) this.off('timeout', callback);
    else if (callback !== undefined) this.once('timeout', callback);
    this.#timer?.cancel();
    if (this.connecting && ms > 0) this.#timer = this.#clock.timer(() => this.emit('timeout'), ms);
    return this.#later('setTimeout', ms);
  }

  /** On a Node without it, it does nothing. */
  setTypeOfService(tos: number): this {
    // Here, because the socket that would refuse it comes later.
    if (!(Number.isInteger(tos) && tos >= 0 && tos <= 255)) {
      throw Object.assign(new RangeError('tos must be an integer from 0 to 255'), { code: 'ERR_OUT_OF_RANGE' });
    }
    this.#typeOfService = tos;
    return this.#later('setTypeOfService', tos);
  }

  getTypeOfService(): number {
    return (this.#socket as NewerSocket | undefined)?.getTypeOfService?.() ?? this.#typeOfService;
  }

  ref(): this {
    return this.#later('ref');
  }

  unref(): this {
    return this.#later('unref');
  }

  override _construct(done: (error?: Error | null) => void): void {
    this.#connect(this.#abort.signal).then(
      (socket) => {
        if (this.destroyed) socket.destroy();
        else this.#adopt(socket);
        done();
        for (const event of ['connect', 'ready']) if (!this.destroyed) this.emit(event);
      },
      (error: Error) => done(this.destroyed ? null : error),
    );
  }

  override _read(): void {
    this.#socket?.resume();
  }

  override _write(chunk: unknown, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#passing = (chunk as Buffer).length;
    this.#socket?.write(chunk as Buffer, encoding, (error) => {
      this.#passing = 0;
      done(error);
    });
  }

  override _final(done: (error?: Error | null) => void): void {
    const socket = this.#socket;
    if (socket === undefined || socket.destroyed) done();
    else socket.end(() => done());
  }

  override destroy(error?: Error): this {
    // Node destroys a stream only after `_construct` has finished, so connecting is called off here.
    this.#abort.abort(error ?? new Error('the stream was destroyed'));
    this.#timer?.cancel();
    return super.destroy(error);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    const socket = this.#socket;
    if (socket === undefined || socket.closed) {
      done(error);
      return;
    }
    // This stream emits `close` after its socket has.
    socket.once('close', () => done(error));
    socket.destroy();
  }

  #adopt(socket: Socket): void {
    this.#socket = socket;
    this.#timer?.cancel();
    for (const apply of this.#waiting.splice(0)) apply(socket);
    socket.on('data', (chunk) => {
      if (!this.push(chunk)) socket.pause();
    });
    let hasEnded = false;
    socket.on('end', () => {
      hasEnded = true;
      this.push(null);
    });
    socket.on('timeout', () => this.emit('timeout'));
    socket.on('error', (error) => this.destroy(error));
    socket.on('close', () => {
      // Data that was received before the end may not have been read yet. The stream closes by itself afterwards.
      if (!hasEnded) this.destroy();
    });
  }

  #later(name: Later, ...settings: unknown[]): this {
    const apply = (socket: Socket): void => {
      (socket as unknown as { [name in Later]?: (...args: unknown[]) => void })[name]?.(...settings);
    };
    if (this.#socket === undefined) this.#waiting.push(apply);
    else apply(this.#socket);
    return this;
  }
}
