import * as mysql2 from 'mysql2';

const { Connection, ConnectionConfig } = mysql2 as unknown as {
  readonly Connection: { readonly prototype: object };
  readonly ConnectionConfig: new (options: object) => { readonly gracefulEnd?: unknown };
};

/** What the mysql2 under test can do: the matrix runs these tests with older ones, too. */

/** 3.22 and newer tidy up a session that is given back. */
export const canReset: boolean = 'reset' in Connection.prototype;

/** Newer ones end a connection of a pool when they are told to. */
export const canEndGracefully: boolean = new ConnectionConfig({}).gracefulEnd !== undefined;

/** Newer ones publish statements on `node:diagnostics_channel`. */
export const tracesAddress: boolean = canReset;
