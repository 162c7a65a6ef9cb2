import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type ProgramResult, runProgram } from './consumer.js';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** The sources compiled to a folder of their own, for programs in child processes. Only the doors without a peer load. */
export class Compiled {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static async create(): Promise<Compiled> {
    const folder = await mkdtemp(join(tmpdir(), 'evenkeel-compiled-'));
    const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    const result = await runProgram(
      process.execPath,
      // Types are another check's matter.
      [
        tsc,
        '-p',
        'tsconfig.build.json',
        '--outDir',
        folder,
        '--noEmitOnError',
        'false',
        '--declaration',
        'false',
        '--isolatedDeclarations',
        'false',
      ],
      root,
    );
    if (result.code !== 0) console.warn(result.stdout);
    return new Compiled(folder);
  }

  /** Runs a program of the tests to its end; it gets the folder as its first argument. */
  run(program: string, args: readonly string[] = [], nodeArgs: readonly string[] = []): Promise<ProgramResult> {
    return runProgram(process.execPath, [...nodeArgs, join(root, program), this.folder, ...args], root);
  }

  async remove(): Promise<void> {
    await rm(this.folder, { recursive: true, force: true });
  }
}
