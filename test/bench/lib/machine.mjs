/** What the figures were measured on. */
import { availableParallelism, cpus, totalmem } from 'node:os';

/** One line, such as `Node 20.20.2, linux x64, 2 × Some CPU, 24 GB`. */
export function describeMachine() {
  const model = cpus()[0]?.model.trim() ?? 'unknown CPU';
  const memory = Math.round(totalmem() / 2 ** 30);
  return `Node ${process.versions.node}, ${process.platform} ${process.arch}, ${availableParallelism()} × ${model}, ${memory} GB`;
}
