import type { Connection } from '../../src/pool/transport.js';

/** The capacities a connection told of, in order: a pool takes them for true and asks no more. */
export function toldCapacity(connection: Pick<Connection<unknown>, 'capacity' | 'watchCapacity'>): number[] {
  const told: number[] = [];
  connection.watchCapacity?.(() => told.push(connection.capacity));
  return told;
}
