import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { until } from '../until.js';

const { canHaveOwnAddresses } = (await import(
  new URL('../../../examples/playground/addresses.js', import.meta.url).href
)) as { canHaveOwnAddresses: () => Promise<boolean> };

/** Whether pods can have addresses of their own here, which headless DNS needs. */
export const severalAddresses: boolean = await canHaveOwnAddresses();

const main = fileURLToPath(new URL('../../../examples/playground/main.js', import.meta.url));

/** How a run of the playground ended. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The playground as a process, as `npm start` runs it. */
export interface Playground {
  readonly child: ChildProcess;
  /** Its output so far. */
  readonly stdout: () => string;
  readonly ended: Promise<Ended>;
}

/** Starts it with the given options. */
export function startPlayground(...options: string[]): Playground {
  const child = spawn(process.execPath, [main, ...options], { stdio: ['ignore', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk;
  });
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk;
  });
  const ended = new Promise<Ended>((resolve) => child.on('close', (code) => resolve({ code, stdout, stderr })));
  return { child, stdout: () => stdout, ended };
}

/** The URL of its page, once it serves one. */
export async function pageUrl(playground: Playground): Promise<string> {
  await until('the playground names its page', () => /http:\/\/\S+/.test(playground.stdout()));
  return /http:\/\/\S+/.exec(playground.stdout())?.[0] as string;
}

/** The pids of its pods, clients and proxy. */
export function childrenOf(playground: Playground): number[] {
  const output = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' });
  return output
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number) as [number, number])
    .filter(([, parent]) => parent === playground.child.pid)
    .map(([pid]) => pid);
}

/** Whether a process of that pid runs. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Ends it as Ctrl-C does. */
export async function stopPlayground(playground: Playground): Promise<Ended> {
  playground.child.kill('SIGINT');
  return playground.ended;
}
