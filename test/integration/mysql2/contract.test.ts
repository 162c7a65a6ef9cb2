import { createEndpoint } from 'evenkeel';
import { mysql2Transport } from 'evenkeel/mysql2';
import type { Pool } from 'mysql2';
import { transportContract } from '../../contract/transport.js';
import { ScriptedMysql } from '../../support/databases/scripted-mysql.js';
import { refusingEndpoint } from '../../support/pods/hanging-endpoint.js';

transportContract<Pool>({
  name: 'mysql2Transport',
  open: async () => {
    const server = await ScriptedMysql.start();
    const silent = await ScriptedMysql.start();
    silent.greeting = 'silent';
    server.reaction = () => 'hold';
    let held = 0;
    return {
      transport: mysql2Transport({ user: 'app', password: 'secret' }),
      endpoint: createEndpoint(server.endpoint),
      refusing: createEndpoint(await refusingEndpoint()),
      hanging: createEndpoint(silent.endpoint),
      open: () => server.open + silent.open,
      end: (how) => server.end(how),
      call: async (pool) => {
        const ended = new Promise<'finished' | 'cut'>((resolve) => {
          pool.query('SELECT 1', (error: Error | null) => resolve(error ? 'cut' : 'finished'));
        });
        const connection = await server.held(++held);
        return {
          ended: ended.finally(() => held--),
          finish: () => connection.answer?.(),
        };
      },
      close: async () => {
        await server[Symbol.asyncDispose]();
        await silent[Symbol.asyncDispose]();
      },
    };
  },
});
