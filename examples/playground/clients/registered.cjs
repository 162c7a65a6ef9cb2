// EVENKEEL_CONFIG of the client that is started with evenkeel/register. A cluster needs none: the pod's files say where the API server
// is, and pods have no loopback addresses.
module.exports = {
  discovery: { kubernetes: { apiServer: process.env.PLAYGROUND_API_SERVER }, allowAddresses: ['loopback'] },
};
