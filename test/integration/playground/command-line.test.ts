import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { childrenOf, isRunning, type Playground, pageUrl, startPlayground } from '../../support/programs/playground.js';
import { until } from '../../support/until.js';

const { readOptions, UsageError } = (await import(
  new URL('../../../examples/playground/options.js', import.meta.url).href
)) as { readOptions: (args: readonly string[]) => object; UsageError: new () => Error };

const running: Playground[] = [];

function start(...options: string[]): Playground {
  const playground = startPlayground(...options);
  running.push(playground);
  return playground;
}

afterEach(async () => {
  for (const playground of running.splice(0)) {
    playground.child.kill('SIGKILL');
    await playground.ended;
  }
});

describe('options of the playground', () => {
  test('--help lists all of them and exits with 0', async () => {
    const { code, stdout } = await start('--help').ended;
    expect(code).toBe(0);
    for (const option of [
      '--once',
      '--protocol',
      '--pods',
      '--rate',
      '--picker',
      '--port',
      '--no-page',
      '--open',
      '--minutes',
    ]) {
      expect(stdout).toContain(option);
    }
  });

  test.each([
    [['--bogus'], '--bogus'],
    [['stray'], 'stray'],
    [['--rate', 'x'], '--rate must be a whole number from 10 to 2000, not "x"'],
    [['--rate', '5'], 'not "5"'],
    [['--pods', '0'], '--pods must be a whole number'],
    [['--pods', '99'], 'not "99"'],
    [['--port', '70000'], '--port'],
    [['--picker', 'best'], '--picker must be one of p2c,'],
    [['--protocol', 'smtp'], '--protocol must be some of grpc, http, mysql, websocket, or all, not "smtp"'],
    [['--once', '--port', '8080'], '--once'],
    [['--no-page', '--open'], '--no-page'],
  ])('%j are refused with the reason', (options, message) => {
    expect(() => readOptions(options)).toThrow(UsageError);
    expect(() => readOptions(options)).toThrow(message);
  });

  test('options that are refused end it with code 2 and the reason, without a stack', async () => {
    const { code, stderr } = await start('--rate', '5').ended;
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: '--rate must be a whole number from 10 to 2000, not "5"\nSee npm start -- --help\n',
    });
  });
});

describe('the end of the playground', () => {
  test.each([
    ['SIGINT', 1],
    ['SIGTERM', 2],
    ['SIGHUP', 1],
  ] as const)('%s ends every process and exits with 0', async (signal, pods) => {
    const playground = start('--port', '0', '--rate', '10', '--pods', String(pods));
    await pageUrl(playground);
    const children = childrenOf(playground);
    expect(children.length).toBeGreaterThanOrEqual(pods + 3); // two clients, the proxy
    playground.child.kill(signal);
    expect((await playground.ended).code).toBe(0);
    await until('no child is left', () => !children.some(isRunning));
  });

  test('children end when their parent is killed', async () => {
    const playground = start('--port', '0', '--rate', '10', '--pods', '1');
    await pageUrl(playground);
    const children = childrenOf(playground);
    expect(children.length).toBeGreaterThanOrEqual(4);
    playground.child.kill('SIGKILL');
    await until('no child is left', () => !children.some(isRunning));
  });

  test('a requested port that is taken is an error', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    const { code, stderr } = await start('--port', String(port), '--rate', '10', '--pods', '1').ended;
    taken.close();
    expect(code).toBe(1);
    expect(stderr).toContain('EADDRINUSE');
  });
});
