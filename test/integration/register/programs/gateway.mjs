// A GraphQL gateway whose subgraph is the Service: `node gateway.mjs [fetch]`, with `fetch` in place of its own fetcher.
import { createServer } from 'node:http';
import { ApolloGateway, IntrospectAndCompose, RemoteGraphQLDataSource } from '@apollo/gateway';
import { ApolloServer } from '@apollo/server';

const { ORDERS, PORT } = process.env;
const own = process.argv[2] === 'fetch' ? { fetcher: fetch } : {};
const gateway = new ApolloGateway({
  supergraphSdl: new IntrospectAndCompose({ subgraphs: [{ name: 'orders', url: `${ORDERS}/graphql` }] }),
  buildService: ({ url }) => new RemoteGraphQLDataSource({ url, ...own }),
});
const server = new ApolloServer({ gateway });
await server.start();
const query = 'query Order($id: ID!) { order(id: $id) { id state note } }';
createServer(async (request, response) => {
  const variables = { id: /\d+/.exec(request.url)[0] };
  const { body } = await server.executeOperation({ query, variables });
  const { data, errors } = body.singleResult;
  if (errors !== undefined) response.writeHead(502).end(errors[0].message);
  else response.end(JSON.stringify(data));
}).listen(Number(PORT), '127.0.0.1');
