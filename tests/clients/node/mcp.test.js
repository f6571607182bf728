// OAuth as MCP hosts do it: the helpers of `@modelcontextprotocol/sdk`, one by one and in one go.
// Started by ../run, which sets RESEND_BASE_URL and who ./person.js is.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as mcp from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { person } from './person.js';

const base = process.env.RESEND_BASE_URL;
const redirectUrl = 'http://localhost:33418/callback';
const clientMetadata = {
  client_name: 'An MCP host',
  redirect_uris: [redirectUrl],
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
};

const events = (token) => fetch(`${base}/events`, { headers: { authorization: `Bearer ${token}` } });

test('the helpers, one by one', async () => {
  const unasked = await fetch(`${base}/events`);
  assert.equal(unasked.status, 401);
  const { resourceMetadataUrl } = mcp.extractWWWAuthenticateParams(unasked);
  const resource = await mcp.discoverOAuthProtectedResourceMetadata(base, { resourceMetadataUrl });
  const [issuer] = resource.authorization_servers;
  const metadata = await mcp.discoverAuthorizationServerMetadata(issuer);
  assert.equal(metadata.issuer, issuer);

  const clientInformation = await mcp.registerClient(issuer, { metadata, clientMetadata, scope: 'full_access' });
  const { authorizationUrl, codeVerifier } = await mcp.startAuthorization(issuer, {
    metadata,
    clientInformation,
    redirectUrl,
    scope: 'full_access',
    state: 'of mind',
    resource: new URL(resource.resource),
  });
  const callback = new URL(await person(authorizationUrl)).searchParams;
  assert.equal(callback.get('state'), 'of mind');

  const common = { metadata, clientInformation, resource: new URL(resource.resource) };
  const tokens = await mcp.exchangeAuthorization(issuer, {
    ...common,
    authorizationCode: callback.get('code'),
    codeVerifier,
    redirectUri: redirectUrl,
  });
  assert.equal((await events(tokens.access_token)).status, 200);
  const fresh = await mcp.refreshAuthorization(issuer, { ...common, refreshToken: tokens.refresh_token });
  assert.notEqual(fresh.refresh_token, tokens.refresh_token);
  assert.equal((await events(fresh.access_token)).status, 200);
  await assert.rejects(
    mcp.refreshAuthorization(issuer, { ...common, refreshToken: 'made up' }),
    (error) => error.errorCode === 'invalid_grant',
  );
});

// What a host has to remember for the SDK's own orchestration.
class Host {
  redirectUrl = redirectUrl;
  clientMetadata = clientMetadata;
  state = () => 'of mind';
  clientInformation = () => this.client;
  saveClientInformation = (client) => void (this.client = client);
  tokens = () => this.saved;
  saveTokens = (tokens) => void (this.saved = tokens);
  codeVerifier = () => this.verifier;
  saveCodeVerifier = (verifier) => void (this.verifier = verifier);
  redirectToAuthorization = async (url) => void (this.callback = new URL(await person(url)).searchParams);
}

// Asked for nothing in particular, a host gets the least of the API at the root, and all of it for the MCP server,
// which has a path of its own.
for (const [serverUrl, scope, status] of [
  [base, 'emails:send', 403],
  [`${base}/mcp`, 'full_access', 200],
]) {
  test(`in one go, for ${new URL(serverUrl).pathname}`, async () => {
    const host = new Host();
    assert.equal(await mcp.auth(host, { serverUrl }), 'REDIRECT');
    const authorizationCode = host.callback.get('code');
    assert.equal(await mcp.auth(host, { serverUrl, authorizationCode }), 'AUTHORIZED');
    assert.equal(host.saved.scope, scope);
    assert.equal((await events(host.saved.access_token)).status, status);

    const before = host.saved;
    assert.equal(await mcp.auth(host, { serverUrl }), 'AUTHORIZED');
    assert.notEqual(host.saved.refresh_token, before.refresh_token);
  });
}

test('a host that was let in calls tools', async () => {
  const host = new Host();
  const address = new URL(`${base}/mcp`);
  const connect = () => {
    const client = new Client({ name: 'a host', version: '1' });
    return { client, transport: new StreamableHTTPClientTransport(address, { authProvider: host }) };
  };
  const refused = connect();
  await assert.rejects(refused.client.connect(refused.transport), { message: 'Unauthorized' });
  await refused.transport.finishAuth(host.callback.get('code'));
  const { client, transport } = connect();
  await client.connect(transport);
  const { tools } = await client.listTools();
  assert.ok(tools.some(({ name }) => name === 'send_event'));
  const made = await client.callTool({ name: 'create_event', arguments: { name: 'by.an.assistant' } });
  assert.ok(!made.isError, made.content[0].text);
  const read = await client.callTool({ name: 'read_event', arguments: { identifier: 'by.an.assistant' } });
  assert.equal(JSON.parse(read.content[0].text).id, JSON.parse(made.content[0].text).id);
  const missing = await client.callTool({ name: 'read_event', arguments: { identifier: 'nobody' } });
  assert.ok(missing.isError);

  const { resources } = await client.listResources();
  const guide = resources.find(({ name }) => name === 'automations');
  const [contents] = (await client.readResource({ uri: guide.uri })).contents;
  assert.equal(contents.text, await (await fetch(guide.uri)).text());
  await assert.rejects(client.readResource({ uri: 'test://nobody' }), { code: -32002 });
  const { messages } = await client.getPrompt({ name: 'plan_automation', arguments: { goal: 'a welcome' } });
  assert.match(messages[0].content.text, /goal: a welcome$/);
  await client.close();
});

test('a host that asks for a log gets it before the answers', async () => {
  const requestInit = { headers: { authorization: `Bearer ${process.env.RESEND_API_KEY}` } };
  const transport = new StreamableHTTPClientTransport(new URL(`${base}/mcp`), { requestInit });
  const client = new Client({ name: 'a host', version: '1' });
  const told = [];
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void told.push(params));
  await client.connect(transport);
  assert.match(transport.sessionId, /^[0-9a-f-]{36}$/);
  const call = (name, args = {}) => client.callTool({ name, arguments: args });
  await call('list_events');
  assert.deepEqual(told, []);
  await client.setLoggingLevel('info');
  await Promise.all([call('list_events'), call('list_segments'), call('read_event', { identifier: 'nobody' })]);
  assert.deepEqual(told.map(({ level, data }) => [level, data.tool, data.status]).sort(), [
    ['info', 'list_events', 200],
    ['info', 'list_segments', 200],
    ['warning', 'read_event', 404],
  ]);
  await client.setLoggingLevel('error');
  await call('read_event', { identifier: 'nobody' });
  assert.equal(told.length, 3);
  await assert.rejects(client.setLoggingLevel('loud'), { code: -32602 });
  await transport.terminateSession();
  await client.close();
});
