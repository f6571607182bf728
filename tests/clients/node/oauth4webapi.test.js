// OAuth through the npm client `oauth4webapi`, which checks every answer against the RFCs.
// Started by ../run, which sets RESEND_BASE_URL and who ./person.js is.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as oauth from 'oauth4webapi';
import { person } from './person.js';

const base = process.env.RESEND_BASE_URL;
const redirect = 'http://127.0.0.1:51234/oauth/callback?app=1';
const http = { [oauth.allowInsecureRequests]: true };
let server;

before(async () => {
  const issuer = new URL(base);
  const answer = await oauth.discoveryRequest(issuer, { algorithm: 'oauth2', ...http });
  server = await oauth.processDiscoveryResponse(issuer, answer);
});

async function register(metadata) {
  const wanted = { client_name: 'oauth4webapi', redirect_uris: ['http://127.0.0.1/oauth/callback?app=1'], ...metadata };
  return oauth.processDynamicClientRegistrationResponse(
    await oauth.dynamicClientRegistrationRequest(server, wanted, http),
  );
}

const authentication = {
  none: () => oauth.None(),
  client_secret_basic: (client) => oauth.ClientSecretBasic(client.client_secret),
  client_secret_post: (client) => oauth.ClientSecretPost(client.client_secret),
};

// Sends the person to the server; returns what came back, and the verifier to redeem it with.
async function authorize(client, { scope, state = oauth.generateRandomState(), options = [] } = {}) {
  const verifier = oauth.generateRandomCodeVerifier();
  const url = new URL(server.authorization_endpoint);
  url.searchParams.set('client_id', client.client_id);
  url.searchParams.set('redirect_uri', redirect);
  url.searchParams.set('response_type', 'code');
  url.searchParams.set('code_challenge', await oauth.calculatePKCECodeChallenge(verifier));
  url.searchParams.set('code_challenge_method', 'S256');
  url.searchParams.set('state', state);
  if (scope) url.searchParams.set('scope', scope);
  const location = await person(url, ...options);
  assert.ok(location.startsWith(`${redirect}&`), location);
  return { parameters: () => oauth.validateAuthResponse(server, client, new URL(location), state), verifier };
}

async function redeem(client, auth, { parameters, verifier }) {
  const answer = await oauth.authorizationCodeGrantRequest(server, client, auth, parameters(), redirect, verifier, http);
  return oauth.processAuthorizationCodeResponse(server, client, answer);
}

async function refresh(client, auth, token, scope) {
  const more = scope ? { additionalParameters: { scope } } : {};
  const answer = await oauth.refreshTokenGrantRequest(server, client, auth, token, { ...http, ...more });
  return oauth.processRefreshTokenResponse(server, client, answer);
}

async function events(token) {
  return oauth.protectedResourceRequest(token, 'GET', new URL(`${base}/events`), undefined, null, http);
}

// The refusal of a token, as the client read it from WWW-Authenticate.
async function challenge(token) {
  const error = await events(token).then(
    (answer) => assert.fail(`${answer.status} instead of a challenge`),
    (error) => error,
  );
  assert.ok(error instanceof oauth.WWWAuthenticateChallengeError, String(error));
  return { status: error.status, ...error.cause[0].parameters };
}

test('the server and what it protects are discovered', async () => {
  assert.equal(server.issuer, base);
  const resource = await oauth.processResourceDiscoveryResponse(
    new URL(base),
    await oauth.resourceDiscoveryRequest(new URL(base), http),
  );
  assert.deepEqual(resource.authorization_servers, [server.issuer]);
});

for (const method of Object.keys(authentication)) {
  test(`a client that authenticates by ${method} goes all the way`, async () => {
    const client = await register({ token_endpoint_auth_method: method, scope: 'full_access emails:send' });
    assert.equal(client.token_endpoint_auth_method, method);
    const auth = authentication[method](client);

    const tokens = await redeem(client, auth, await authorize(client));
    assert.deepEqual(tokens.scope.split(' ').sort(), ['emails:send', 'full_access']);
    assert.equal((await events(tokens.access_token)).status, 200);

    const fresh = await refresh(client, auth, tokens.refresh_token);
    assert.notEqual(fresh.refresh_token, tokens.refresh_token);
    assert.equal((await events(fresh.access_token)).status, 200);

    const gone = await oauth.revocationRequest(server, client, auth, fresh.refresh_token, http);
    await oauth.processRevocationResponse(gone);
    assert.equal((await challenge(fresh.access_token)).error, 'invalid_token');
    await assert.rejects(refresh(client, auth, fresh.refresh_token), { error: 'invalid_grant' });
  });
}

test('the access token is a JWT that the published keys prove', async () => {
  const client = await register();
  const tokens = await redeem(client, oauth.None(), await authorize(client, { scope: 'full_access' }));
  const request = new Request(`${base}/events`, { headers: { authorization: `Bearer ${tokens.access_token}` } });
  const claims = await oauth.validateJwtAccessToken(server, request, base, http);
  assert.equal(claims.client_id, client.client_id);
  assert.equal(claims.scope, 'full_access');
  assert.equal(claims.exp - claims.iat, 900);
});

test('what the person takes away is not granted', async () => {
  const client = await register();
  const narrowed = await authorize(client, { options: ['--only', 'emails:send'] });
  const tokens = await redeem(client, oauth.None(), narrowed);
  assert.equal(tokens.scope, 'emails:send');
  const refused = await challenge(tokens.access_token);
  assert.deepEqual([refused.status, refused.error, refused.scope], [403, 'insufficient_scope', 'full_access']);
  await assert.rejects(refresh(client, oauth.None(), tokens.refresh_token, 'full_access'), { error: 'invalid_scope' });
});

test('a denial comes back as access_denied, with the state', async () => {
  const { parameters } = await authorize(await register(), { options: ['--deny'] });
  assert.throws(parameters, { error: 'access_denied' });
});

test('the state comes back as it was, whatever it holds', async () => {
  const client = await register();
  for (const state of ['a b+c&d=e%20#f', 'Grüße 🎉', '"<script>\\', 'x'.repeat(1024)]) {
    const { parameters } = await authorize(client, { state });
    assert.equal(parameters().get('state'), state);
  }
});

test('a code is redeemed once; the second time ends what the first began', async () => {
  const client = await register();
  const code = await authorize(client);
  const tokens = await redeem(client, oauth.None(), code);
  await assert.rejects(redeem(client, oauth.None(), code), { error: 'invalid_grant' });
  assert.equal((await challenge(tokens.access_token)).error, 'invalid_token');
});

test('a code is worth nothing without the verifier', async () => {
  const client = await register();
  const code = await authorize(client);
  const stranger = { ...code, verifier: oauth.generateRandomCodeVerifier() };
  await assert.rejects(redeem(client, oauth.None(), stranger), { error: 'invalid_grant' });
});

test('a wrong secret is an invalid client', async () => {
  const client = await register({ token_endpoint_auth_method: 'client_secret_basic' });
  const code = await authorize(client);
  await assert.rejects(redeem(client, oauth.ClientSecretBasic('wrong'), code), { status: 401 });
  await redeem(client, authentication.client_secret_basic(client), code);
});
