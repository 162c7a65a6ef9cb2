import { EvenkeelError } from '../../index.js';

/**
 * Throws EVENKEEL_OPTION where requests would be sent past us without a word: Bun puts something else in place of the package
 * undici, and the `fetch` of Deno takes no dispatcher.
 */
export function checkRuntime(name: string, versions: NodeJS.Dict<string> = process.versions): void {
  const why =
    versions.bun !== undefined
      ? 'Bun puts functions of its own in place of the package undici'
      : versions.deno !== undefined
        ? "Deno's fetch passes over dispatchers"
        : undefined;
  if (why === undefined) return;
  throw new EvenkeelError('EVENKEEL_OPTION', `${name} works on Node.js only: ${why}. evenkeel/node-http works there`);
}
