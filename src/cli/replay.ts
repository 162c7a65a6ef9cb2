import { contentsOf } from '../recorder/explained.js';
import { readDump } from '../recorder/read-dump.js';
import type { ReplayCommand } from './command-line.js';
import { chosen, readFile, WallClock } from './recording-file.js';
import { summaryOf } from './recording-text.js';

/** Runs `evenkeel replay`: makes the recorded picks again, and says how many are the same. Returns the exit code. */
export async function replay(command: ReplayCommand, write: (text: string) => void): Promise<number> {
  const dump = readDump(readFile(command.file));
  const balancer = chosen(dump, command.balancer);
  const { picker, load } = balancer.configuration;
  const contents = contentsOf(balancer);
  const [head, settings] = summaryOf(dump, balancer, contents, new WallClock(dump, balancer));
  const { picks, same } = contents;
  const result =
    picker === undefined
      ? 'The picker is a function of the application: its picks cannot be replayed.'
      : load === undefined
        ? 'The load is a function of the application: picks that use it cannot be replayed.'
        : `Replayed with the same picker and load, ${same} of ${picks} picks are the same.`;
  write(`${head ?? ''}\n${settings ?? ''}\n\n${result}\n`);
  return picker === undefined || load === undefined || same === picks ? 0 : 1;
}
