// An app that calls a Service with an agent class of its own, says so, and goes on.
const http = require('node:http');

class OwnAgent extends http.Agent {}

const get = (options) => new Promise((ended) => http.get('http://orders.shop:8080/', options).on('error', ended));
// The first is for a plain agent: with it evenkeel is loaded, and the admin page is served.
void Promise.all([get({}), get({ agent: new OwnAgent() })]).then(() => console.log('called'));
setInterval(() => {}, 60_000);
