//! What assistants are told of the server, and the methods that it has.

#![expect(deprecated, reason = "hosts of revisions before 2026-07-28 know no other log")]

use axum::Router;
use http::request::Parts;
use rmcp::model::{
    CallToolRequestMethod, CallToolRequestParams, CallToolResponse, ConstString, CustomRequest, CustomResult,
    ErrorCode, GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse, Implementation,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestMethod, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SetLevelRequestMethod, SetLevelRequestParams, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use super::session::Asker;
use super::tool::Tools;
use super::{call, log, prompts, resources};
use crate::app::App;
use crate::memory::Lazily;
use crate::text::shown;

const INSTRUCTIONS: &str = "Posthorn sends mail: single mails, broadcasts to segments of contacts, and automations that \
    events start. Tools that change or send something say so in their hints. Look before you do: `validate_automation`, \
    `preview_template`, `preview_segment` and `read_segment` change nothing. Broadcasts are made as drafts and \
    automations disabled. Ask a person before anything is sent to people. Lists are pages of 20: go on with `after`.";

/// Those that take parameters.
const METHODS: [&str; 4] = [
    CallToolRequestMethod::VALUE,
    GetPromptRequestMethod::VALUE,
    ReadResourceRequestMethod::VALUE,
    SetLevelRequestMethod::VALUE,
];

/// Clones share it.
#[derive(Clone)]
pub struct Assistants {
    app: App,
    api: Router,
    tools: Lazily<Tools>,
}

impl Assistants {
    pub fn new(app: App, api: Router, tools: Lazily<Tools>) -> Assistants {
        Assistants { app, api, tools }
    }

    fn base(&self) -> &str {
        self.app.addresses.base.as_str()
    }
}

impl ServerHandler for Assistants {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_resources().enable_prompts().enable_logging().build();
        let us = Implementation::new("posthorn", env!("CARGO_PKG_VERSION")).with_title("Posthorn");
        ServerConfig::new(capabilities).with_server_info(us).with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let greeting = self.negotiate_initialize(&request)?;
        Asker::of(&context)?.begin();
        context.peer.set_peer_info(request);
        Ok(greeting)
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !log::is_by_session(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        log::set(&context, request.level, self.app.clock.tick().number()).await
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::list(self.base())))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(self.base(), &request.uri).map(Into::into)
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&request.name, &request.arguments.unwrap_or_default()).map(Into::into)
    }

    /// What the library could not read: a method that we have, with other parameters than it takes, or none of ours.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, params, .. } = request;
        let is_of_level = method == SetLevelRequestMethod::VALUE;
        if !METHODS.contains(&method.as_str()) || is_of_level && !log::is_by_session(&context) {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None));
        }
        let message = match is_of_level {
            true => log::unknown(params.as_ref().map_or(&Value::Null, |params| &params["level"])),
            false => format!("These are not the parameters that `{method}` takes."),
        };
        Err(ErrorData::invalid_params(message, None))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.get().values().map(|tool| tool.told.clone()).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.get().get(name).map(|tool| tool.told.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tools = self.tools.get();
        let Some(tool) = tools.get(request.name.as_ref()) else {
            let message = format!("There is no tool `{}`. `tools/list` names those there are.", shown(&request.name));
            return Err(ErrorData::invalid_params(message, None));
        };
        let Some(caller) = context.extensions.get::<Parts>() else {
            return Err(ErrorData::internal_error("The call came without its request.", None));
        };
        let least = log::least(&context).await?;
        let called = call::call(&self.api, tool, caller, request.arguments.unwrap_or_default()).await;
        log::tell(&context, least, tool, called.status).await;
        Ok(called.result.into())
    }
}
