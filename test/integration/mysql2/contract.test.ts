import { createEndpoint } from '../../../src/index.js';
import { transportContract } from '../../contract/transport.js';
import { ScriptedMysql } from '../../support/databases/scripted-mysql.js';
import { refusingEndpoint } from '../../support/pods/hanging-endpoint.js';
import { ask, type MysqlServer, transport } from './support/server.js';

transportContract<MysqlServer>({
  name: 'mysql2',
  open: async () => {
    const server = await ScriptedMysql.start();
    const silent = await ScriptedMysql.start();
    silent.greeting = 'silent';
    server.reaction = () => 'hold';
    let held = 0;
    return {
      transport: transport({ user: 'app', password: 'secret' }),
      endpoint: createEndpoint(server.endpoint),
      refusing: createEndpoint(await refusingEndpoint()),
      hanging: createEndpoint(silent.endpoint),
      open: () => server.open + silent.open,
      end: (how) => server.end(how),
      call: async (to) => {
        const ended = ask(to, 'SELECT 1').then(
          () => 'finished' as const,
          () => 'cut' as const,
        );
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
