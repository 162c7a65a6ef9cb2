import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { transformSync } from 'rolldown/utils';
import { expect } from 'vitest';
// @ts-expect-error: a plain script without types
import { buildIfChanged } from '../../../scripts/build.mjs';
import { refusingEndpoint } from '../pods/hanging-endpoint.js';
import { runProgram } from './consumer.js';
import { runInHost } from './program-host.js';

/** The folder of the repository. */
export const root: string = fileURLToPath(new URL('../../..', import.meta.url));

/** Builds the package if its sources changed, for programs that use it as published. */
export async function buildPackage(): Promise<void> {
  expect(buildIfChanged()).not.toMatchObject({ failed: true });
}

/** A program from a guide. */
export interface GuideProgram {
  /** The heading above it; for the form with `require` of a program, `<heading>, with require`. */
  readonly heading: string;
  readonly source: string;
  readonly format: 'module' | 'commonjs';
}

/** The programs of `docs/guide/<name>.md` in one language, in order, as JavaScript. */
export function guidePrograms(name: string, language: 'js' | 'ts' = 'js'): readonly GuideProgram[] {
  const guide = readFileSync(new URL(`../../../docs/guide/${name}.md`, import.meta.url), 'utf8');
  return guide.split(/^## /m).flatMap((section) => {
    const [heading = ''] = section.split('\n', 1);
    const fence = new RegExp(`^\`\`\`${language}(?: \\[(\\w+)\\])?\\n([\\s\\S]*?)^\`\`\``, 'gm');
    return [...section.matchAll(fence)].map(([, label, source = '']) => ({
      heading: label === 'require' ? `${heading}, with require` : heading,
      source: language === 'js' ? source : transformSync('program.ts', source).code,
      format: label === 'require' ? 'commonjs' : 'module',
    }));
  });
}

/** The output of a Node program, which must exit with 0 and print no warnings. */
export async function outputOf(args: readonly string[], folder: string = root): Promise<string> {
  const { code, stdout, stderr } = await runProgram(process.execPath, args, folder);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return stdout;
}

/** The same for the source of a module. */
export function outputOfModule(
  source: string,
  folder: string = root,
  nodeArgs: readonly string[] = [],
): Promise<string> {
  return outputOf([...nodeArgs, '--input-type=module', '-e', source], folder);
}

/** The same for a program of a guide, which may use `require`. Those of a test file share a process, and each has to end. */
export async function outputOfProgram(
  { source, format }: Pick<GuideProgram, 'source' | 'format'>,
  folder: string = root,
): Promise<string> {
  const { code, stdout, stderr } = await runInHost(source, format, folder);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  return stdout;
}

/**
 * Expects a client to print `lines` and end by itself, although it closes nothing. It gets the ports of `endpoints` and one more that
 * refuses, so reconnecting goes on in the background all the time.
 */
export async function expectToEnd(
  [program, ...args]: readonly [string, ...string[]],
  endpoints: readonly { readonly port: number }[],
  lines: readonly string[],
): Promise<void> {
  const ports = [...endpoints, await refusingEndpoint()].map(({ port }) => String(port));
  const stdout = await outputOf([program, ...args, ...ports]);
  expect(stdout.trim().split('\n')).toEqual(lines);
}
