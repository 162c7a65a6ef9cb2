import { expect, it } from 'vitest';
import { type DoctorCommand, help, parseCommandLine } from '../../../src/cli/command-line.js';

it('reads a target and its defaults', () => {
  expect(parseCommandLine(['doctor', 'orders.shop:http'])).toEqual({
    name: 'doctor',
    target: 'orders.shop:http',
    parsed: { kind: 'plain', host: 'orders.shop', port: 'http' },
    options: { allowAddresses: [], dns: {}, kubernetes: {} },
    timeoutMs: 10_000,
    connect: true,
    admin: undefined,
    watch: false,
    json: false,
  });
});

it.each([
  ['http://orders.shop:8080', 'orders.shop:8080'],
  ['http://orders.shop', 'orders.shop:80'],
  ['https://orders.shop/v1?x=1#y', 'orders.shop:443'],
  ['wss://user:secret@orders.shop', 'orders.shop:443'],
  ['http://[fd00::1]:8080/', '[fd00::1]:8080'],
  ['http://10.0.0.1', '10.0.0.1:80'],
])('takes the target out of the URL %s', (url, target) => {
  expect(parseCommandLine(['doctor', url])).toMatchObject({ target, parsed: { kind: 'plain' } });
});

it.each(['postgres://orders.shop:5432', 'http://', 'http://orders.shop:htttp'])('refuses the URL %s', (url) => {
  expect(() => parseCommandLine(['doctor', url])).toThrow(/target must be .*it is a URL/);
});

it('reads every option', () => {
  const args = ['doctor', 'orders:80', '--watch', '--json', '--no-connect', '--timeout', '2.5'];
  args.push('--allow-address', 'loopback', '--allow-address', 'link-local', '--namespace', 'web');
  args.push('--cluster-domain', 'k8s.example', '--dns-server', '10.0.0.10', '--dns-server', '[fd00::1]:53');
  expect(parseCommandLine(args)).toMatchObject({
    options: {
      allowAddresses: ['loopback', 'link-local'],
      dns: { servers: ['10.0.0.10', '[fd00::1]:53'], clusterDomain: 'k8s.example', namespace: 'web' },
    },
    timeoutMs: 2_500,
    connect: false,
    watch: true,
    json: true,
  });
});

it.each([
  [
    ['--api-server', 'https://10.0.0.1', '--token-file', 't', '--ca-file', 'c'],
    { apiServer: 'https://10.0.0.1', credentials: { tokenFile: 't', caFile: 'c' } },
  ],
  [['--service-account', '/sa'], { inCluster: { path: '/sa' } }],
])("reads the client's name and position: %j", (args, kubernetes) => {
  expect(parseCommandLine(['doctor', 'orders.shop:80', ...args])).toMatchObject({ options: { kubernetes } });
});

it.each([
  [['--kubeconfig', 'k', '--context', 'c'], { path: 'k', context: 'c' }],
  [['--context', 'c'], { context: 'c' }],
  [['--kubeconfig', 'k', '--service-account', '/sa'], { path: 'k' }],
  [['--kubeconfig', 'k', '--api-server', 'https://10.0.0.1'], undefined],
])('keeps a kubeconfig for when the command runs: %j', (args, kubeConfig) => {
  const command = parseCommandLine(['doctor', 'orders.shop:80', ...args]) as DoctorCommand;
  expect(command.kubeConfig).toEqual(kubeConfig);
  expect(command.options.kubernetes).not.toHaveProperty('inCluster');
});

it('shows help before anything else, and without arguments', () => {
  for (const args of [
    [],
    ['--help'],
    ['-h'],
    ['help'],
    ['help', 'doctor'],
    ['doctor', '--help'],
    ['nonsense', '--help'],
  ]) {
    expect(parseCommandLine(args)).toEqual({ name: 'help' });
  }
  expect(parseCommandLine(['--version', '--help'])).toEqual({ name: 'version' });
});

it('help lists every option', () => {
  let known = '';
  try {
    parseCommandLine(['doctor', 'a.b:1', '--watch=1']);
  } catch (error) {
    known = (error as Error).message;
  }
  expect(known).toContain('--watch');
  for (const option of ['watch', 'json', 'timeout', 'no-connect', 'allow-address', 'namespace', 'cluster-domain']) {
    expect(help).toContain(`--${option}`);
  }
});

it('accepts the address of an admin page with and without a trailing slash', () => {
  for (const url of ['http://127.0.0.1:9901', 'http://127.0.0.1:9901/']) {
    const admin = new URL('http://127.0.0.1:9901/');
    expect(parseCommandLine(['doctor', 'orders.shop:80', '--admin', url])).toMatchObject({ admin });
  }
  for (const url of ['orders', 'ftp://a/']) {
    expect(() => parseCommandLine(['doctor', 'orders.shop:80', '--admin', url]), url).toThrow('--admin needs a URL');
  }
});

it.each([
  [['doctor'], 'doctor needs a target'],
  [['doctor', 'a.b:1', 'c.d:2'], 'doctor takes one target, got also "c.d:2"'],
  [['cure', 'a.b:1'], 'there is no command "cure"'],
  [['doctor', 'orders.shop'], 'the port is missing'],
  [['doctor', 'a.b:1', '--wach'], "Unknown option '--wach'"],
  [['doctor', 'a.b:1', '--call', '5', '--pod', 'x'], "Unknown option '--call'"],
  [['doctor', 'a.b:1', '--timeout', 'soon'], '--timeout must be 1 to 600 seconds, got "soon"'],
  [['doctor', 'a.b:1', '--token-file', 'x'], '--token-file and --ca-file need --api-server'],
  [['doctor', 'a.b:1', '--allow-address', 'any'], 'allowAddresses must be'],
  [['doctor', 'a.b:1', '--dns-server', 'x'], 'servers must be'],
])('refuses %j with the reason', (args, message) => {
  expect(() => parseCommandLine(args)).toThrow(
    expect.objectContaining({ code: 'EVENKEEL_OPTION', message: expect.stringContaining(message) }),
  );
});
