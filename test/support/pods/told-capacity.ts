import type { Connection } from '../../../src/pool/transport.js';

/** The capacities a connection reported, in order: a pool relies on them and never queries. */
export function toldCapacity(connection: Pick<Connection<unknown>, 'capacity' | 'watchCapacity'>): number[] {
  const told: number[] = [];
  connection.watchCapacity?.(() => told.push(connection.capacity));
  return told;
}
