// OAuth grants through the npm client `resend`, whose "API key" may be an access token.
// Started by ../run, which sets RESEND_BASE_URL, RESEND_API_KEY and who ./person.js is.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { Resend } from 'resend';
import { ok, refused } from './answers.js';
import { person } from './person.js';

const base = process.env.RESEND_BASE_URL;
// Every store knows the vendor's command line.
const client_id = '7136aa0b-625c-4c9c-8820-e9784c8eb141';
const redirect_uri = 'http://127.0.0.1:40404/oauth/callback';

async function connect(scope) {
  const code_verifier = randomBytes(64).toString('base64url');
  const code_challenge = createHash('sha256').update(code_verifier).digest('base64url');
  const query = { client_id, redirect_uri, scope, code_challenge, code_challenge_method: 'S256', response_type: 'code' };
  const callback = new URL(await person(`${base}/oauth/authorize?${new URLSearchParams(query)}`));
  const code = callback.searchParams.get('code');
  // JSON, as some clients send it; the others here send forms.
  const answer = await fetch(`${base}/oauth/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ grant_type: 'authorization_code', client_id, redirect_uri, code, code_verifier }),
  });
  assert.equal(answer.status, 200);
  return new Resend((await answer.json()).access_token);
}

test('an access token is as good as a key, until its grant is revoked', async () => {
  const app = await connect('full_access');
  const owner = new Resend(process.env.RESEND_API_KEY);
  ok(await app.events.create({ name: 'made.with.a.token' }));

  const list = ok(await app.oauthGrants.list({ limit: 1 }));
  assert.equal(list.object, 'list');
  const [grant] = list.data;
  assert.deepEqual(grant.scopes, ['full_access']);
  assert.deepEqual([grant.client_id, grant.revoked_at, grant.revoked_reason], [client_id, null, null]);
  assert.equal(typeof grant.client.name, 'string');
  assert.ok(ok(await owner.oauthGrants.list()).data.some((one) => one.id === grant.id));

  const gone = ok(await owner.oauthGrants.revoke(grant.id));
  assert.deepEqual([gone.object, gone.id, gone.revoked_reason], ['oauth_grant', grant.id, 'revoked_from_api']);
  refused(await app.events.list(), 401, 'invalid_token');
  refused(await owner.oauthGrants.revoke(grant.id), 404, 'not_found');
  const after = ok(await owner.oauthGrants.list()).data.find((one) => one.id === grant.id);
  assert.equal(after.revoked_at, gone.revoked_at);
});

test('a token that may only send does nothing else', async () => {
  const app = await connect('emails:send');
  refused(await app.events.list(), 403, 'invalid_permission');
  refused(await app.oauthGrants.list(), 403, 'invalid_permission');
});
