import { type ChildProcess, fork } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { expect } from 'vitest';
import type { ProgramResult } from './consumer.js';
// @ts-expect-error: a plain script without types
import { END } from './program-host.mjs';

const end = END as string;
const host = fileURLToPath(new URL('program-host.mjs', import.meta.url));
const root = fileURLToPath(new URL('../../..', import.meta.url));
/** Where a program finds the package by its name, as an app does. */
const folder = join(root, 'build', 'programs');

/** By the folder they work in. */
const hosts = new Map<string, ChildProcess>();
/** The test file they belong to: what its programs leave in a process is seen by no other's. */
let owner: string | undefined;
let last: Promise<unknown> = Promise.resolve();
let programs = 0;

/** Runs a program to its end, after those that were asked for before; only one that fails costs the next ones their process. */
export function runInHost(source: string, format: 'module' | 'commonjs', cwd: string): Promise<ProgramResult> {
  const result = last.then(() => run(source, format, cwd));
  last = result.catch(() => {});
  return result;
}

function endAll(): void {
  for (const child of hosts.values()) child.kill();
  hosts.clear();
}

async function run(source: string, format: 'module' | 'commonjs', cwd: string): Promise<ProgramResult> {
  const { testPath } = expect.getState();
  if (testPath !== owner) endAll();
  owner = testPath;
  mkdirSync(folder, { recursive: true });
  const file = join(folder, `${process.pid}-${programs++}.${format === 'module' ? 'mjs' : 'cjs'}`);
  const here = format === 'module' ? pathToFileURL(cwd).href : cwd;
  writeFileSync(file, source.replaceAll(/((?:from|import|require\() ?)'\.\//g, `$1'${here}/`));
  const child = hosts.get(cwd) ?? fork(host, { cwd, execArgv: [], stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  hosts.set(cwd, child);
  try {
    return await new Promise((resolve) => {
      const texts = { stdout: '', stderr: '' };
      const done = (code: number): void => {
        for (const stream of [child.stdout, child.stderr]) stream?.removeAllListeners('data');
        child.removeAllListeners('close');
        resolve({ code, stdout: texts.stdout.replace(end, ''), stderr: texts.stderr.replace(end, '') });
      };
      for (const name of ['stdout', 'stderr'] as const) {
        child[name]?.setEncoding('utf8').on('data', (text: string) => {
          texts[name] += text;
          if (texts.stdout.endsWith(end) && texts.stderr.endsWith(end)) done(0);
        });
      }
      child.once('close', (code) => {
        hosts.delete(cwd);
        done(code ?? 1);
      });
      child.send(file);
    });
  } finally {
    rmSync(file);
  }
}
