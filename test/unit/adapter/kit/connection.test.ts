import { describe, expect, it } from 'vitest';
import { OpenConnection } from '../../../../src/adapter/kit/index.js';

describe('a connection whose adapter reports its calls', () => {
  const open = () => {
    const told: string[] = [];
    const connection: OpenConnection<string> = new OpenConnection({
      handle: 'handle',
      finish: () => {
        told.push('finish');
        connection.ended();
      },
      cut: () => {
        told.push('cut');
        connection.ended(new Error('cut'));
      },
      busy: (isBusy) => told.push(isBusy ? 'busy' : 'idle'),
    });
    return { connection, told };
  };

  it('finishes when the last one has ended', async () => {
    const { connection, told } = open();
    connection.callBegins();
    connection.callBegins();
    const closing = connection.close();
    connection.callEnds();
    expect(connection.running).toBe(1);
    expect(told).toEqual(['busy']);
    connection.callEnds();
    await closing;
    expect(told).toEqual(['busy', 'idle', 'finish']);
    expect(await connection.closed).toBeUndefined();
  });

  it('finishes at once where no call runs, and only once', async () => {
    const { connection, told } = open();
    connection.callBegins();
    connection.callEnds();
    await Promise.all([connection.close(), connection.close()]);
    connection.callBegins();
    connection.callEnds();
    expect(told).toEqual(['busy', 'idle', 'finish', 'busy', 'idle']);
  });

  it('is cut while calls run, and does not finish after that', async () => {
    const { connection, told } = open();
    connection.callBegins();
    const closing = connection.close();
    await connection.close(AbortSignal.abort());
    await closing;
    connection.callEnds();
    expect(told).toEqual(['busy', 'cut', 'idle']);
    expect(await connection.closed).toBeInstanceOf(Error);
  });
});
