import { readFileSync } from 'node:fs';
import { asError, isEvenkeelError } from '../errors.js';
import { help, parseCommandLine } from './command-line.js';
import { type CommandContext, doctor } from './doctor.js';
import { terminalText } from './terminal-text.js';

// The exit codes below are those of sysexits(3), because 1 and 2 describe the Service.
const WRONG_USAGE = 64;
const OWN_FAULT = 70;

/** What the program has of its process. */
export interface ProgramContext extends CommandContext {
  readonly writeError: (text: string) => void;
}

/** The program `evenkeel`. Resolves to its exit code. */
export async function main(args: readonly string[], context: ProgramContext): Promise<number> {
  const write = (text: string): void => context.write(terminalText(text));
  const writeError = (text: string): void => context.writeError(terminalText(text));
  try {
    const command = parseCommandLine(args);
    switch (command.name) {
      case 'help':
        write(help);
        return 0;
      case 'version':
        write(`${JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version}\n`);
        return 0;
      case 'doctor':
        return await doctor(command, { write, signal: context.signal });
    }
  } catch (error) {
    if (!isEvenkeelError(error, 'EVENKEEL_OPTION')) {
      writeError(`evenkeel failed: ${asError(error).stack}\n`);
      return OWN_FAULT;
    }
    writeError(`evenkeel: ${error.message}\ntry evenkeel --help\n`);
    return WRONG_USAGE;
  }
}
