import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { main } from '../../../src/cli/main.js';
import type { DiscoveryWorld } from '../fixtures/discovery-world.js';
import type { LoopbackPods } from '../pods/loopback-pods.js';

const program = fileURLToPath(new URL('../../../dist/cli/evenkeel.js', import.meta.url));

export interface DoctorRun {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** What the environment of a pod of `world` says. */
export function environmentOf({ api }: DiscoveryWorld): Readonly<Record<string, string>> {
  return { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: String(api.port) };
}

function argumentsOf(world: DiscoveryWorld, target: string, more: readonly string[]): readonly string[] {
  const args = ['doctor', target, '--service-account', world.folder, '--dns-server', world.dns.address];
  return [...args, '--cluster-domain', 'cluster.local', '--namespace', 'web', '--allow-address', 'loopback', ...more];
}

/** Runs the real program as a pod of `world` would. */
export function startDoctor(world: DiscoveryWorld, target: string, more: readonly string[] = []): RunningDoctor {
  return new RunningDoctor(argumentsOf(world, target, more), environmentOf(world));
}

/** The same in this process, which has the environment of that pod: a program takes far longer to start than to answer. */
export function runDoctor(world: DiscoveryWorld, target: string, more: readonly string[] = []): Promise<DoctorRun> {
  return runHere(argumentsOf(world, target, more));
}

/** `evenkeel` with these arguments, in this process. */
export async function runHere(args: readonly string[]): Promise<DoctorRun> {
  const texts = { stdout: '', stderr: '' };
  const to = (stream: 'stdout' | 'stderr') => (text: string) => {
    texts[stream] += text;
  };
  const context = { write: to('stdout'), writeError: to('stderr'), signal: new AbortController().signal };
  return { code: await main(args, context), ...texts };
}

export class RunningDoctor {
  stdout = '';
  stderr = '';
  readonly ended: Promise<DoctorRun>;
  readonly #child: ChildProcess;

  constructor(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const { PATH, HOME } = process.env;
    const child = spawn(process.execPath, [program, ...args], { env: { PATH, HOME, ...env }, stdio: 'pipe' });
    child.stdout.setEncoding('utf8').on('data', (text) => {
      this.stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text) => {
      this.stderr += text;
    });
    this.ended = new Promise((resolve) => {
      child.on('close', (code) => resolve({ code, stdout: this.stdout, stderr: this.stderr }));
    });
    this.#child = child;
  }

  interrupt(): void {
    this.#child.kill('SIGINT');
  }
}

/** Replaces our ports, times and names by those that readers of the docs should see. */
export function asInDocs(text: string, world: DiscoveryWorld, pods: LoopbackPods): string {
  return text
    .replaceAll(`127.0.0.1:${world.api.port}`, '10.96.0.1:443')
    .replaceAll(world.dns.address, '10.96.0.10')
    .replaceAll(new RegExp(`127\\.0\\.1\\.(\\d):${pods.port}`, 'g'), '10.0.1.$1:8080')
    .replaceAll(/127\.0\.1\.(\d):/g, '10.0.1.$1:')
    .replaceAll(`127.0.0.77:${pods.port}`, '10.96.0.7:8080')
    .replaceAll('127.0.0.77', '10.96.0.7')
    .replaceAll(String(pods.port), '8080')
    .replaceAll(/\b\d+ ms\)/g, '1 ms)')
    .replaceAll(/\+\s*\d+\.\d s/g, '+1.0 s')
    .replaceAll('system:serviceaccount:test:test', 'system:serviceaccount:web:frontend')
    .replaceAll('test/test', 'web/frontend')
    .replaceAll('-test-test', '-web-frontend')
    .replaceAll('name: test\n    namespace: test', 'name: frontend\n    namespace: web');
}
