import { afterEach, describe, expect, it } from 'vitest';
import { createHttp2Client, createSessionManager, type Http2Options } from '../../../../src/adapter/http2/index.js';
import { resolveHttp2Options } from '../../../../src/adapter/http2/options.js';
import { asConnectError } from '../../../../src/adapter/http2/session-manager.js';
import { EvenkeelError, staticEndpoints } from '../../../../src/index.js';

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one[Symbol.asyncDispose]();
});

const resolver = staticEndpoints([{ address: '127.0.0.1', port: 9 }]);
const create = (options: object, target = 'https://orders.shop') =>
  open.push(createHttp2Client(target, { resolver, ...options } as Http2Options));

describe('options', () => {
  it('keeps the TLS settings as they were given, even if the object is changed later', () => {
    const tls: { ca: string } = { ca: 'first' };
    const resolved = resolveHttp2Options(new URL('https://orders.shop'), { tls });
    tls.ca = 'second';
    expect(resolved.tls).toEqual({ ca: 'first' });
  });

  it.each([
    [{ connections: 0 }, 'connections'],
    [{ connections: { min: 2, max: 1 } }, 'connections.max'],
    [{ connections: { min: 2 } }, 'connections.max'],
    [{ connections: { max: 2, most: 3 } }, 'most'],
    [{ maxConcurrentStreams: 0 }, 'maxConcurrentStreams'],
    [{ pingIntervalMs: 1 }, 'pingIntervalMs'],
    [{ pingTimeoutMs: 0 }, 'pingTimeoutMs'],
    [{ healthPath: 'healthz' }, 'healthPath'],
    [{ tls: true }, 'tls'],
    [{ tls: { ALPNProtocols: ['h2'] } }, 'tls.ALPNProtocols'],
    [{ session: 1 }, 'session'],
    [{ session: { createConnection: () => {} } }, 'session.createConnection'],
    [{ key: 'user' }, 'key'],
    [{ priority: 'high' }, 'priority'],
    [{ askForReports: 1 }, 'askForReports'],
    [{ pingInterval: 1 }, 'pingIntervalMs'],
  ])('%o is refused, by name', (options, name) => {
    expect(() => create(options)).toThrow(
      expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining(name) }),
    );
  });

  it('accept only a URL as target, and no TLS settings with http:', () => {
    expect(() => create({}, 'orders.shop:80')).toThrow('target');
    expect(() => create({}, 'http://orders.shop/path')).toThrow('target');
    expect(() => create({ tls: {} }, 'http://orders.shop')).toThrow('tls');
  });

  it('keep a given number of sessions; without one, sessions grow to 10', () => {
    const resolve = (options: Http2Options) => resolveHttp2Options(new URL('http://orders.shop'), options).connections;
    expect(resolve({})).toEqual({ min: 1, max: 10 });
    expect(resolve({ connections: 3 })).toEqual({ min: 3, max: 3 });
    expect(resolve({ connections: { max: 4 } })).toEqual({ min: 1, max: 4 });
  });

  it('of a request are checked', () => {
    create({});
    const [client] = open as ReturnType<typeof createHttp2Client>[];
    expect(() => client?.request({}, { weight: 1 } as object)).toThrow('weight');
  });

  it('give the authority that the baseUrl of a transport has', () => {
    const manager = createSessionManager('http://orders.shop:80', { resolver });
    open.push(manager);
    expect(manager.authority).toBe(new URL('http://orders.shop:80').origin);
  });
});

describe('the error that a Connect client gets', () => {
  it('is a ConnectError with the code that fits', async () => {
    const { ConnectError, Code } = await import('@connectrpc/connect');
    const codeOf = (code: EvenkeelError['code']) => {
      const error = asConnectError(new EvenkeelError(code, 'why'));
      expect(error).toBeInstanceOf(ConnectError);
      const from = ConnectError.from(error);
      expect(from.rawMessage).toBe('why');
      expect((from.cause as EvenkeelError).code).toBe(code);
      return from.code;
    };
    expect(codeOf('EVENKEEL_NOT_READY')).toBe(Code.Unavailable);
    expect(codeOf('EVENKEEL_CLOSED')).toBe(Code.Unavailable);
    expect(codeOf('EVENKEEL_QUEUE_FULL')).toBe(Code.ResourceExhausted);
    expect(codeOf('EVENKEEL_DEADLINE')).toBe(Code.DeadlineExceeded);
    expect(codeOf('EVENKEEL_OPTION')).toBe(Code.Internal);
    const own = new Error('of Node');
    expect(asConnectError(own)).toBe(own);
  });
});
